/**
 * Parses calls in the format of Qwen3-Coder and Qwen3.5. The text between the tags of a parameter is its value, without type or escapes; the tool's JSON
 * Schema gives the type. As in vLLM, a function without `<tool_call>`, several in one, and unclosed tags are accepted.
 */
import { isObject } from '../schemas/is-object.ts';
import { readJson, refuseRounded } from './read-json.ts';
import type { FoundCall, ParsedToolCall, ToolSpec } from './tool-calls.ts';

type Schema = Readonly<Record<string, unknown>>;

export function parseXmlToolCalls(text: string, tools: readonly ToolSpec[]): FoundCall[] {
  const found: FoundCall[] = [];
  let functionStart: number | null = null;
  let emptyStart: number | null = null;
  const close = (end: number) => {
    if (functionStart !== null) {
      const source = text.slice(functionStart, end);
      found.push({ call: functionCall(source, tools), source });
    } else if (emptyStart !== null) {
      found.push({ call: { problem: 'the call has no <function=name>' }, source: text.slice(emptyStart, end) });
    }
    functionStart = null;
    emptyStart = null;
  };
  for (const { tag, index } of structuralTags(text)) {
    const end = index + tag.length;
    if (tag === '<function=') {
      // Inside a function, it is part of a value.
      functionStart ??= end;
      continue;
    }
    if (tag === '</function>' && functionStart === null) continue;
    close(index);
    if (tag === '<tool_call>') emptyStart = end;
  }
  close(text.length);
  return found;
}

interface Tag {
  readonly tag: string;
  readonly index: number;
}

/** The tags of calls and functions, without a `<tool_call>` or `</tool_call>` within a value that is closed after it. */
function structuralTags(text: string): readonly Tag[] {
  const tags = Array.from(text.matchAll(/<\/?tool_call>|<function=|<\/function>|<parameter=|<\/parameter>/g), ({ 0: tag, index }) => ({
    tag,
    index,
  }));
  // True if the next tag of a parameter or function closes a parameter. Computed from the end, where the next tag is already known.
  let isClosedLater = false;
  const closedLater = tags.map(() => false);
  for (let i = tags.length - 1; i >= 0; i--) {
    closedLater[i] = isClosedLater;
    if (!tags[i]!.tag.endsWith('tool_call>')) isClosedLater = tags[i]!.tag === '</parameter>';
  }
  let isOpen = false;
  return tags.filter(({ tag }, i) => {
    const isOfCall = tag.endsWith('tool_call>');
    if (isOfCall && isOpen && closedLater[i]) return false;
    isOpen = tag === '<parameter=' || (isOpen && tag === '<function=');
    return isOfCall || tag === '<function=' || tag === '</function>';
  });
}

/** `source` begins with the name. */
function functionCall(source: string, tools: readonly ToolSpec[]): ParsedToolCall {
  const nameEnd = tagEnd(source, 0);
  if (nameEnd === null) return { problem: 'the name of the function is not closed by >' };
  const name = source.slice(0, nameEnd).trim();
  if (name === '') return { problem: 'the call has no function name' };
  const args = new Map<string, unknown>();
  const typed = argumentReader(name, tools);
  const put = (key: string, value: string) => args.set(key, typed(key, value));
  let open: { readonly key: string; readonly start: number } | null = null;
  for (const { 0: tag, index } of source.matchAll(/<parameter=|<\/parameter>/g)) {
    if (open !== null) put(open.key, source.slice(open.start, index));
    open = null;
    if (tag === '</parameter>') continue;
    const keyStart = index + tag.length;
    const keyEnd = tagEnd(source, keyStart);
    if (keyEnd === null) return { problem: 'the name of a parameter is not closed by >' };
    open = { key: source.slice(keyStart, keyEnd).trim(), start: keyEnd + 1 };
  }
  if (open !== null) put(open.key, source.slice(open.start));
  return { name, args: Object.fromEntries(args) };
}

/** Index of the tag's `>`; null if another tag begins first. */
function tagEnd(source: string, start: number): number | null {
  const rest = /[<>]/g;
  rest.lastIndex = start;
  const match = rest.exec(source);
  return match?.[0] === '>' ? match.index : null;
}

/** Gives the values of a call's arguments, which stand in tags as texts, the types of the tool's schema. */
export function argumentReader(name: string, tools: readonly ToolSpec[]): (key: string, value: string) => unknown {
  const properties = propertiesOf(tools.find((tool) => tool.name === name));
  return (key, value) => typedValue(withoutLineEnds(value), properties?.[key]);
}

/** The template puts each value on its own lines. */
function withoutLineEnds(value: string): string {
  return value.replace(/^\n/, '').replace(/\n$/, '');
}

function propertiesOf(tool: ToolSpec | undefined): Schema | undefined {
  const properties = tool?.parameters['properties'];
  return isObject(properties) ? properties : undefined;
}

/** The value in a type that the schema allows, tried in vLLM's order; the text itself if none fits or there is no schema. */
function typedValue(text: string, schema: unknown): unknown {
  if (!isObject(schema)) return text;
  const types = typesOf(schema);
  if (types.size === 0) return untypedValue(text, schema);
  for (const [type, read] of READERS) {
    const value = types.has(type) ? read(text) : undefined;
    if (value !== undefined) return value;
  }
  const value = types.has('string') ? undefined : jsonValue(text);
  return value === undefined ? text : value;
}

/** A schema without a type: text that looks like a number may be a string, so only objects and lists are parsed. A `$ref` is not followed, so its text is read as JSON. */
function untypedValue(text: string, schema: Schema): unknown {
  const value = jsonValue(text);
  return value !== undefined && ('$ref' in schema || (typeof value === 'object' && value !== null)) ? value : text;
}

/** Readers by type; each returns undefined if the text is not of its type. */
const READERS: readonly (readonly [string, (text: string) => unknown])[] = [
  ['null', (text) => (text.toLowerCase() === 'null' ? null : undefined)],
  ['integer', (text) => (/^\s*[+-]?\d+\s*$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined)],
  ['number', (text) => (/^\s*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*$/i.test(text) && Number.isFinite(Number(text)) ? Number(text) : undefined)],
  ['boolean', (text) => BOOLEANS.get(text.trim().toLowerCase())],
  ['object', jsonValue],
  ['array', jsonValue],
];

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
]);

/** The types that the schema allows, by their JSON Schema names; empty if it names none. */
function typesOf(schema: Schema): ReadonlySet<unknown> {
  const { type, enum: values } = schema;
  const own: readonly unknown[] = Array.isArray(type) ? type : type === undefined ? [] : [type];
  const listed: readonly unknown[] = Array.isArray(values) ? values : 'const' in schema ? [schema['const']] : [];
  const inner = ['anyOf', 'oneOf', 'allOf'].flatMap((key) => (Array.isArray(schema[key]) ? schema[key].filter(isObject) : []));
  return new Set([...own, ...listed.map(typeOfValue), ...inner.flatMap((one) => [...typesOf(one)])]);
}

function typeOfValue(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** Undefined if the text is not JSON, has a number beyond the range of JavaScript's, or an integer that would be rounded. */
function jsonValue(text: string): unknown {
  try {
    return readJson(text, (key, value, context) => {
      if (value === Infinity || value === -Infinity) throw new RangeError('The number is too large');
      return refuseRounded(key, value, context);
    });
  } catch {
    return undefined;
  }
}
