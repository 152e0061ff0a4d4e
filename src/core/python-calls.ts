/** Tool calls that a model writes as calls in Python: `[find(query="a", top=2)]`. Only calls of offered tools are read; nothing is evaluated. */
import { readJson } from './read-json.ts';
import type { FoundCall, ParsedToolCall, ToolSpec } from './tool-calls.ts';

/**
 * A string, a bracket, a comma or an equals sign; or what stands between them, where an escaped quote begins no string: else each in a string without an end would be
 * tried as a beginning.
 */
const PIECE = /("""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|[()[\]{},=]|(?:\\.|[^()[\]{},='"\\])+|\\/g;
const WORDS: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' };

/** The calls of offered tools in the text, in order. Positional arguments get the names of the schema's properties, in their order. */
export function pythonCalls(text: string, tools: readonly ToolSpec[]): FoundCall[] {
  const names = tools.map(({ name }) => name.replaceAll(/\W/g, String.raw`\$&`));
  if (names.length === 0) return [];
  const found: FoundCall[] = [];
  const opening = new RegExp(String.raw`(?<![\w.'"])(?:functions\.|tools\.)?(${names.join('|')})(?:\.call)?\(`, 'g');
  let last = 0;
  for (const { 0: written, 1: name, index } of text.matchAll(opening)) {
    // Inside the arguments of another call, it is a text.
    if (index < last) continue;
    const { args, end } = argumentsFrom(text, index + written.length);
    const tool = tools.find((one) => one.name === name)!;
    found.push({ call: args === null ? { problem: 'the call of Python is not closed' } : pythonCall(tool, args), source: text.slice(index, end) });
    last = end;
  }
  return found;
}

/** The pieces of each argument up to the bracket that closes the call; null if none does. */
function argumentsFrom(text: string, start: number): { readonly args: readonly (readonly string[])[] | null; readonly end: number } {
  const args: string[][] = [[]];
  let depth = 0;
  for (const { 0: piece, index } of text.slice(start).matchAll(PIECE)) {
    if (piece === ')' && depth === 0) return { args: args.filter((arg) => arg.join('').trim() !== ''), end: start + index + 1 };
    if (/^[([{]$/.test(piece)) depth += 1;
    if (/^[)\]}]$/.test(piece)) depth -= 1;
    if (piece === ',' && depth === 0) args.push([]);
    else args.at(-1)!.push(piece);
  }
  return { args: null, end: text.length };
}

function pythonCall({ name, parameters }: ToolSpec, args: readonly (readonly string[])[]): ParsedToolCall {
  const properties = Object.keys(parameters['properties'] ?? {});
  const given = new Map<string, unknown>();
  for (const [place, pieces] of args.entries()) {
    const isNamed = pieces[1] === '=';
    const key = isNamed ? pieces[0]!.trim() : properties[place];
    if (key === undefined) return { problem: `the call has ${args.length} arguments, and ${name} takes ${properties.length}` };
    try {
      given.set(key, readJson((isNamed ? pieces.slice(2) : pieces).map(jsonPiece).join('')));
    } catch {
      return { problem: `the argument ${key} is not a Python value` };
    }
  }
  return { name, args: Object.fromEntries(given) };
}

/** A piece of a Python literal as a piece of JSON; the colon of a dictionary is a part of what stands between. */
function jsonPiece(piece: string): string {
  const quoted = /^("""|'''|"|')([^]*)\1$/.exec(piece);
  if (quoted !== null)
    return JSON.stringify(quoted[2]!.replaceAll(/\\([nrt'"\\])/g, (_, code: string) => ({ n: '\n', r: '\r', t: '\t' })[code] ?? code));
  if (piece === '(' || piece === ')') return piece === '(' ? '[' : ']';
  return piece.replaceAll(/\b(?:True|False|None)\b/g, (word) => WORDS[word]!);
}
