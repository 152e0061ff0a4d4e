/** For loops and unpacking as in Python's Jinja: every round has variables of its own, `loop` has all its attributes, and a recursive loop calls itself. */
import { Environment } from '@huggingface/jinja';
import { spend } from './python-budget.ts';
import type { Node, Scope } from './python-interpreter.ts';
import { isEqual } from './python-operators.ts';
import { callable, dict, flag, integer, isTrue, iterate, type Key, missing, pythonType, type RuntimeValue, text } from './python-runtime.ts';

/** Variables that hide those of the scope around them. */
const Variables = Environment as unknown as new (around: Scope) => Scope;

/** What a loop needs of the interpreter. */
export interface LoopBody {
  readonly evaluate: (node: Node, scope: Scope) => RuntimeValue;
  readonly block: (nodes: readonly Node[], scope: Scope) => string;
}

/** Thrown by `break` and `continue`. */
export class RoundEnd extends Error {
  readonly isBreak: boolean;

  constructor(isBreak: boolean) {
    super('outside of a loop');
    this.isBreak = isBreak;
  }
}

/** `loop`, which is a dictionary; `again` runs the loop over other items. */
export interface LoopValue extends RuntimeValue {
  readonly again?: (items: RuntimeValue) => RuntimeValue;
}

/** `a`, or `a, (b, c)`. Throws if the value cannot be unpacked. */
export function assign(target: Node, value: RuntimeValue, scope: Scope): void {
  if (target.type === 'Identifier') {
    scope.setVariable(target['value'] as string, value);
    return;
  }
  if (target.type !== 'TupleLiteral') throw new Error(`can't assign to ${target.type}`);
  const targets = target['value'] as readonly Node[];
  const items = iterate(value);
  if (items.length !== targets.length) throw new Error(`cannot unpack ${pythonType(value)}: expected ${targets.length} values, got ${items.length}`);
  for (const [i, one] of targets.entries()) assign(one, items[i]!, scope);
}

/** The text of all rounds, or of the `else` block if no round came to its end. */
export function loopText(node: Node, scope: Scope, body: LoopBody, given: RuntimeValue | null = null, depth = 0): string {
  const { iterable, loopvar } = node as unknown as { readonly iterable: Node; readonly loopvar: Node };
  const isFiltered = iterable.type === 'SelectExpression';
  const inner = (item: RuntimeValue) => {
    const variables = new Variables(scope);
    assign(loopvar, item, variables);
    return variables;
  };
  const all = iterate(given ?? body.evaluate((isFiltered ? iterable['lhs'] : iterable) as Node, scope));
  const items = isFiltered ? all.filter((item) => isTrue(body.evaluate(iterable['test'] as Node, inner(item)))) : all;
  let written = '';
  let isComplete = false;
  const last: { value: RuntimeValue | null } = { value: null };
  for (const [i, item] of items.entries()) {
    spend(4);
    const variables = inner(item);
    const again = (more: RuntimeValue) => text(loopText(node, scope, body, more, depth + 1));
    variables.setVariable('loop', Object.assign(dict(attributesOf(items, i, depth, last)), { again }));
    try {
      written += body.block(node['body'] as readonly Node[], variables);
      isComplete = true;
    } catch (error) {
      if (!(error instanceof RoundEnd)) throw error;
      if (error.isBreak) break;
    }
  }
  return isComplete ? written : written + body.block(node['defaultBlock'] as readonly Node[], scope);
}

function attributesOf(
  items: readonly RuntimeValue[],
  i: number,
  depth: number,
  last: { value: RuntimeValue | null },
): ReadonlyMap<Key, RuntimeValue> {
  return new Map<Key, RuntimeValue>([
    ['index', integer(i + 1)],
    ['index0', integer(i)],
    ['revindex', integer(items.length - i)],
    ['revindex0', integer(items.length - i - 1)],
    ['first', flag(i === 0)],
    ['last', flag(i === items.length - 1)],
    ['length', integer(items.length)],
    ['depth', integer(depth + 1)],
    ['depth0', integer(depth)],
    ['previtem', items[i - 1] ?? missing()],
    ['nextitem', items[i + 1] ?? missing()],
    ['cycle', callable((values) => values[i % values.length] ?? missing())],
    [
      'changed',
      callable(([value = missing()]) => {
        const isChanged = last.value === null || !isEqual(last.value, value);
        last.value = value;
        return flag(isChanged);
      }),
    ],
  ]);
}
