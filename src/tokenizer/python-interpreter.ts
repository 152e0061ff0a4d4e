/**
 * Evaluates a template as Python's Jinja does: what is printed, loops, operators, filters, tests, attributes and dictionaries. Everything else (`if`, macros, some methods
 * of text) is the library's. A template that Python refuses is refused.
 */
import { Interpreter } from '@huggingface/jinja';
import { isObject } from '../schemas/is-object.ts';
import { spend, spendText } from './python-budget.ts';
import { FILTERS, type FilterArguments, OF_TEXT } from './python-filters.ts';
import { testOf } from './python-tests.ts';
import { assign, loopText, type LoopValue, RoundEnd } from './python-loop.ts';
import { binary } from './python-operators.ts';
import {
  callable,
  dict,
  entriesOf,
  isDict,
  isList,
  isMissing,
  isNone,
  isText,
  isTrue,
  tuple,
  itemsOf,
  iterate,
  type Key,
  keyOf,
  list,
  missing,
  pythonType,
  type RuntimeValue,
  text,
  textOf,
  flag,
} from './python-runtime.ts';
import { pythonText } from './python-values.ts';
import { NO_ITEM } from './python-tokens.ts';
import { testOfFilter } from './test-arguments.ts';
import { dictMethod, listMethod } from './python-methods.ts';
import { textMethod } from './python-text-methods.ts';

export type Node = Record<string, unknown> & { readonly type: string };
/** The variables in scope. */
export interface Scope {
  set(name: string, value: unknown): unknown;
  setVariable(name: string, value: RuntimeValue): unknown;
}
/** The library declares its interpreter in a form that only bundlers resolve. */
const Evaluator = Interpreter as unknown as new (scope: Scope) => {
  evaluate(node: Node | undefined, scope: Scope): RuntimeValue;
  evaluateBlock(nodes: readonly Node[], scope: Scope): RuntimeValue;
  run(program: unknown): RuntimeValue;
};

/** A node that has its value already. */
const valueNode = (value: RuntimeValue): Node => ({ type: 'PythonValue', value });
/** `a < b < c` compares both pairs. */
const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in']);
/** Statements, which give the text that they print; of an expression, its value is printed. */
const STATEMENTS: ReadonlySet<string> = new Set('If For Set Macro CallStatement Break Continue Comment'.split(' '));

/** Other expressions name a list that there is already. */
const MAKES_LISTS: ReadonlySet<string> = new Set(['CallExpression', 'FilterExpression', 'MemberExpression']);

export class PythonInterpreter extends Evaluator {
  override evaluate(node: Node | undefined, environment: Scope): RuntimeValue {
    spend();
    const value = (node === undefined ? null : this.#python(node, environment)) ?? super.evaluate(node, environment);
    if (isText(value)) spendText(textOf(value).length);
    else if (isList(value) && node !== undefined && MAKES_LISTS.has(node.type)) spend(itemsOf(value).length / 4);
    return value;
  }

  override evaluateBlock(nodes: readonly Node[], environment: Scope): RuntimeValue {
    let written = '';
    for (const node of nodes) {
      const value = this.evaluate(node, environment);
      if (!STATEMENTS.has(node.type) || isText(value)) written += pythonText(value);
    }
    return text(written);
  }

  #value(node: unknown, environment: Scope): RuntimeValue {
    return this.evaluate(node as Node, environment);
  }

  /** Null for a node that the library evaluates. */
  #python(node: Node, environment: Scope): RuntimeValue | null {
    switch (node.type) {
      case 'PythonValue':
        return node['value'] as RuntimeValue;
      case 'For':
        return text(loopText(node, environment, this.#loopBody));
      case 'Break':
      case 'Continue':
        throw new RoundEnd(node.type === 'Break');
      case 'Set':
        return this.#set(node, environment);
      case 'CallExpression':
        return this.#recursion(node, environment);
      case 'BinaryExpression':
        return this.#binary(node, environment);
      case 'TupleLiteral':
        return tuple((node['value'] as readonly Node[]).filter(({ value }) => value !== NO_ITEM).map((one) => this.#value(one, environment)));
      case 'ObjectLiteral':
        return this.#dict(node['value'] as ReadonlyMap<unknown, unknown>, environment);
      case 'TestExpression': {
        const isRight = testOf((node['test'] as Node)['value'] as string)(this.#value(node['operand'], environment), []);
        return flag(isRight !== node['negate']);
      }
      case 'FilterExpression':
        return this.#filter(this.#value(node['operand'], environment), node['filter'] as Node, environment);
      case 'MemberExpression':
        return this.#member(node, environment);
      default:
        return null;
    }
  }

  readonly #loopBody = {
    evaluate: (node: Node, scope: Scope) => this.evaluate(node, scope),
    block: (nodes: readonly Node[], scope: Scope) => textOf(this.evaluateBlock(nodes, scope)),
  };

  /** `set a, b = ...` and `set a | filter`; null for other assignments. */
  #set({ assignee, value, body }: Node, environment: Scope): RuntimeValue | null {
    const target = assignee as Node;
    if (target.type === 'TupleLiteral' && isObject(value)) {
      assign(target, this.#value(value, environment), environment);
      return missing();
    }
    if (target.type !== 'FilterExpression') return null;
    const filters: Node[] = [];
    let name: Node = target;
    for (; name.type === 'FilterExpression'; name = name['operand'] as Node) filters.unshift(name['filter'] as Node);
    const written = this.evaluateBlock(body as readonly Node[], environment);
    assign(
      name,
      filters.reduce((one, filter) => this.#filter(one, filter, environment), written),
      environment,
    );
    return missing();
  }

  /** `loop(items)`; null for every other call. */
  #recursion({ callee, args }: Node, environment: Scope): RuntimeValue | null {
    const { type, value } = callee as Node;
    if (type !== 'Identifier' || value !== 'loop') return null;
    const again = (this.#value(callee, environment) as LoopValue).again;
    return again?.(this.#value((args as readonly Node[])[0], environment)) ?? null;
  }

  #binary({ operator, left, right }: Node, environment: Scope): RuntimeValue | null {
    const { value: name } = operator as { readonly value: string };
    if (name === 'and' || name === 'or') return null;
    const { type, operator: before, right: middle } = left as Node;
    if (COMPARISONS.has(name) && type === 'BinaryExpression' && COMPARISONS.has((before as { readonly value: string }).value)) {
      const first = this.#value(left, environment);
      return isTrue(first) ? binary(name, this.#value(middle, environment), this.#value(right, environment)) : first;
    }
    return binary(name, this.#value(left, environment), this.#value(right, environment));
  }

  #dict(written: ReadonlyMap<unknown, unknown>, environment: Scope): RuntimeValue {
    const entries = new Map<Key, RuntimeValue>();
    for (const [keyNode, node] of written) {
      const given = this.#value(keyNode, environment);
      const key = keyOf(given);
      if (key === null) throw new Error(`unhashable type: '${pythonType(given)}'`);
      entries.set(key, this.#value(node, environment));
    }
    return dict(entries);
  }

  #filter(value: RuntimeValue, filter: Node, environment: Scope): RuntimeValue {
    const isCall = filter.type === 'CallExpression';
    const { value: name } = (isCall ? filter['callee'] : filter) as { readonly value: string };
    const asked = testOfFilter(name);
    if (asked !== null)
      return flag(testOf(asked.test)(value, this.#arguments(filter['args'] as readonly Node[], environment).positional) !== asked.isNegated);
    if (Object.hasOwn(FILTERS, name)) return FILTERS[name]!(value, this.#arguments(isCall ? (filter['args'] as readonly Node[]) : [], environment));
    const operand = OF_TEXT.has(name) && !isText(value) ? text(pythonText(value)) : name === 'sort' ? list(iterate(value)) : value;
    return super.evaluate({ type: 'FilterExpression', operand: valueNode(operand), filter }, environment);
  }

  #arguments(nodes: readonly Node[], environment: Scope): FilterArguments {
    const named = new Map<string, RuntimeValue>();
    const positional: RuntimeValue[] = [];
    for (const node of nodes) {
      if (node.type === 'KeywordArgumentExpression')
        named.set((node['key'] as { readonly value: string }).value, this.#value(node['value'], environment));
      else positional.push(this.#value(node, environment));
    }
    const apply: FilterArguments['apply'] = (name, value, args) => {
      const callee = { type: 'Identifier', value: name };
      return this.#filter(value, args.length === 0 ? callee : { type: 'CallExpression', callee, args: args.map(valueNode) }, environment);
    };
    return { positional, named, apply };
  }

  #member(node: Node, environment: Scope): RuntimeValue | null {
    const { object: of, property, computed } = node;
    const object = this.#value(of, environment);
    const isComputed = computed === true;
    if (isMissing(object)) throw new Error(`'${nameOf(of as Node)}' is undefined`);
    const known = { ...node, object: valueNode(object) };
    if (isComputed && (property as Node).type === 'SliceExpression') return this.#slice(known, environment);
    const key = isComputed ? this.#value(property, environment) : null;
    const name = key === null ? ((property as Node)['value'] as Key) : keyOf(key);
    if (isDict(object)) return memberOfDict(object, name, isComputed);
    if (isText(object) && typeof name === 'string') {
      const method = textMethod(textOf(object), name);
      if (method !== null) return callable(method);
    }
    if (isText(object) && typeof name === 'number') {
      const character = Array.from(textOf(object)).at(name);
      return character === undefined ? missing() : text(character);
    }
    if (isList(object) && (name === 'index' || name === 'count' || name === 'copy')) return callable(listMethod(itemsOf(object), name));
    if (isList(object) && typeof name === 'number') return object.isGenerator === true ? missing() : (itemsOf(object).at(name) ?? missing());
    return name === null || (typeof name === 'number' && object.type !== 'NamespaceValue') ? missing() : this.#library(known, environment);
  }

  /** Bounds may be None. */
  #slice(node: Node, environment: Scope): RuntimeValue {
    const bounds = node['property'] as Node & { readonly start: unknown; readonly stop: unknown; readonly step: unknown };
    const bound = (one: unknown) => {
      const value = isObject(one) ? this.#value(one, environment) : missing();
      return valueNode(isNone(value) ? missing() : value);
    };
    return this.#library(
      { ...node, property: { ...bounds, start: bound(bounds.start), stop: bound(bounds.stop), step: bound(bounds.step) } },
      environment,
    );
  }

  /** The library's value of a node, whose parts are known already. */
  #library(node: Node, environment: Scope): RuntimeValue {
    return super.evaluate(node, environment);
  }
}

/** `a.b` prefers a method, `a['b']` a key, as in Python. */
function memberOfDict(object: RuntimeValue, name: Key | null, isComputed: boolean): RuntimeValue {
  if (name === null) return missing();
  const method = typeof name === 'string' ? dictMethod(object, name) : null;
  const entry = entriesOf(object).get(name) ?? null;
  if (entry !== null && (isComputed || method === null)) return entry;
  return method === null ? missing() : callable(method);
}

function nameOf({ type, value, property }: Node): string {
  const name = type === 'MemberExpression' ? (property as Node)['value'] : type === 'Identifier' ? value : null;
  return typeof name === 'string' ? name : 'item';
}
