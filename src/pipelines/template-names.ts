/** Finds the names that a Jinja template prints. A name that its tool does not give would print an empty string, so the check of a pipeline warns of it. */
import { isObject } from '../schemas/is-object.ts';

interface Names {
  /** `{{ name }}`, with or without filters. */
  readonly printed: Set<string>;
  /** Names that the template sets itself, or tests with `if`. */
  readonly known: Set<string>;
}

/** In the order of the template. `program` is the library's parse tree. */
export function printedNames(program: unknown): readonly string[] {
  const names: Names = { printed: new Set(), known: new Set() };
  visit(program, names);
  return [...names.printed].filter((name) => !names.known.has(name));
}

function visit(node: unknown, names: Names): void {
  if (!isObject(node)) return;
  const printed = printedName(node);
  if (printed !== null) names.printed.add(printed);
  const { type, loopvar, test, assignee, args } = node;
  const known = type === 'For' ? loopvar : type === 'If' ? test : type === 'Set' ? assignee : type === 'Macro' ? args : null;
  for (const name of identifiers(known)) names.known.add(name);
  for (const block of [node['body'], node['alternate'], node['defaultBlock']])
    if (Array.isArray(block)) for (const inner of block) visit(inner, names);
}

/** Null if the expression is more than a name with filters, or has the filter `default`, which says what is printed for a missing name. */
function printedName({ type, value, operand, filter }: Readonly<Record<string, unknown>>): string | null {
  if (type === 'Identifier') return String(value);
  if (type !== 'FilterExpression' || !isObject(operand) || identifiers(filter).includes('default')) return null;
  return printedName(operand);
}

function identifiers(node: unknown): readonly string[] {
  if (Array.isArray(node)) return node.flatMap(identifiers);
  if (!isObject(node)) return [];
  return node['type'] === 'Identifier' ? [String(node['value'])] : Object.values(node).flatMap(identifiers);
}
