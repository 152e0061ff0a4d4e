/**
 * Jinja templates that print values as Python does, so that prompts equal those of transformers and vLLM. The Jinja library prints and trims as JavaScript
 * does: `true`, `0.00001`, a byte order mark as white space, `rstrip('\n')` without its argument. The parsed template is therefore rewritten to call the
 * functions of `python-values.ts`, and its expressions are evaluated by `PythonInterpreter`.
 */
import { Environment, parse, Template, tokenize } from '@huggingface/jinja';
import { isObject } from '../schemas/is-object.ts';
import { iterableNode, type Node, PythonInterpreter } from './python-interpreter.ts';
import { GLOBALS } from './python-globals.ts';
import { textOf } from './python-runtime.ts';
import { FUNCTIONS } from './python-values.ts';
import { type Token, withTestArguments } from './test-arguments.ts';

const parseTokens = parse as unknown as (tokens: readonly Token[]) => object;
/** Statements of a block that print nothing, or print literal text. */
const NOT_PRINTED: ReadonlySet<unknown> = new Set('StringLiteral If For Set Macro CallStatement FilterStatement Break Continue Comment'.split(' '));
const BLOCKS: ReadonlySet<string> = new Set(['body', 'alternate', 'defaultBlock']);

export class PythonTemplate {
  readonly #program: object;

  /** Throws the library's error if the template cannot be parsed. */
  constructor(source: string) {
    const tokens = tokenize(source, { lstrip_blocks: true, trim_blocks: true }) as readonly Token[];
    this.#program = parseTokens(withTestArguments(tokens));
    rewrite(this.#program);
  }

  /** Throws the library's error if the template rejects the variables. */
  render(variables: Readonly<Record<string, unknown>>): string {
    const environment = new Environment();
    for (const [name, value] of Object.entries({ ...GLOBALS, ...variables, ...FUNCTIONS })) environment.set(name, value);
    return textOf(new PythonInterpreter(environment).run(this.#program));
  }
}

/** Changes the parsed template in place, because the library checks the class of each node. */
function rewrite(holder: object): void {
  for (const [key, value] of Object.entries(holder)) {
    const isBlock = BLOCKS.has(key) && Array.isArray(value);
    const changed = isBlock ? value.map(printed) : replaced(value);
    if (changed !== value) Reflect.set(holder, key, changed);
  }
}

function replaced(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(replaced);
  if (value instanceof Map) return new Map([...value].map(([key, inner]) => [replaced(key), replaced(inner)]));
  if (!isNode(value)) return value;
  rewrite(value);
  if (value.type === 'For') return loop(value);
  return pythonCall(value) ?? value;
}

function printed(statement: unknown): unknown {
  const node = replaced(statement);
  return isNode(node) && !NOT_PRINTED.has(node.type) ? call('_python_str', [list(node)]) : node;
}

/** The call that replaces a node; null for most. */
function pythonCall(node: Node): Node | null {
  const { type, operand, filter, operator, left, right, callee, args } = node;
  if (type === 'BinaryExpression' && isNode(operator) && operator['value'] === '~') return call('_python_str', [list(left, right)]);
  if (type === 'FilterExpression' && isNode(filter)) return filterCall(operand, filter);
  if (type !== 'CallExpression' || !isNode(callee)) return null;
  const { object, property, computed } = callee;
  const name = callee.type === 'MemberExpression' && computed === false && isNode(property) ? property['value'] : null;
  return name === 'strip' || name === 'lstrip' || name === 'rstrip' ? call(`_python_${name}`, [object, ...(args as Node[])]) : null;
}

/** In place, as everything else. */
function loop(node: Node): Node {
  const { iterable, loopvar } = node;
  const isUnpacked = isNode(loopvar) && loopvar.type === 'TupleLiteral';
  if (isNode(iterable) && iterable.type === 'SelectExpression') Reflect.set(iterable, 'lhs', iterableNode(iterable['lhs'], isUnpacked));
  else Reflect.set(node, 'iterable', iterableNode(iterable, isUnpacked));
  return node;
}

function filterCall(operand: unknown, filter: Node): Node | null {
  const named = filter.type === 'CallExpression' ? filter['callee'] : filter;
  const args = filter.type === 'CallExpression' ? (filter['args'] as Node[]) : [];
  const name = isNode(named) ? named['value'] : null;
  if (name === 'string') return call('_python_str', [list(operand)]);
  if (name === 'trim') return call('_python_strip', [call('_python_str', [list(operand)]), ...args]);
  return name === 'tojson' ? call('_python_json', [list(operand), ...args]) : null;
}

function call(name: string, args: unknown): Node {
  return Object.assign(parsedExpression(`${name}()`), { args });
}

/** The library unwraps plain arguments of a function; inside a list, values keep their types. */
function list(...value: readonly unknown[]): Node {
  return Object.assign(parsedExpression('[]'), { value });
}

function parsedExpression(source: string): Node {
  return new Template(`{{ ${source} }}`).parsed.body[0] as Node;
}

function isNode(value: unknown): value is Node {
  return isObject(value) && typeof value['type'] === 'string';
}
