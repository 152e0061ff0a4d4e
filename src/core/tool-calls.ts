/**
 * Parsers of tool calls in a model's text, one for each family of chat templates. They never throw: a call that cannot be parsed is an attempt with a
 * problem, which the environment answers. All take linear time.
 */
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { argumentsOrNull, MOST_ARGUMENT_LEVELS } from '../schemas/arguments-or-null.ts';
import { isDeeperThan } from '../schemas/nesting.ts';
import type { ToolCall } from './message.ts';
import { refuseRounded } from './read-json.ts';
import { type JsonObject, objectScanner } from './object-scanner.ts';
import { parseXmlToolCalls } from './xml-tool-calls.ts';

/** A tool as shown to a model. */
export interface ToolSpec {
  /** Letters, digits, `_` and `-`. */
  readonly name: string;
  /** Tells the model what the tool does and when to call it. */
  readonly description: string;
  /** JSON Schema of the arguments object. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** A parsed call, or the reason why it could not be parsed. */
export type ParsedToolCall = { readonly name: string; readonly args: Record<string, unknown> } | { readonly problem: string };

/** A call with the id for its answer. `text`: its arguments as the model wrote them, or the whole call if it could not be parsed. */
export type ToolCallAttempt = ParsedToolCall & { readonly id: string; readonly text: string };

/**
 * The way a model spells a call:
 * - `hermes`: `<tool_call>{"name", "arguments"}</tool_call>` (Hermes, Qwen2.5, Qwen3)
 * - `qwen3-coder`: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`
 *   (Qwen3-Coder, Qwen3.5)
 * - `llama3`: `{"name", "parameters"}`, several separated by `;` or by any other text (Llama 3.1 to 3.3)
 */
export type ToolCallFormat = 'hermes' | 'qwen3-coder' | 'llama3';

/**
 * The calls in a model's text, in order. An unclosed last call extends to the end of the text.
 * @param format default: 'hermes'
 * @param tools their schemas give the types of values in `qwen3-coder`, which writes values without types; strings by default
 * @example parseToolCalls('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>') // [{ name: 'add', args: { a: 1 } }]
 */
export function parseToolCalls(text: string, format: ToolCallFormat = 'hermes', tools: readonly ToolSpec[] = []): ParsedToolCall[] {
  return PARSERS[format](text, tools).map(({ call }) => call);
}

/** The calls with ids of nine letters and digits, as the strictest templates require. `turn` counts from 0. */
export function toolCallAttempts(text: string, format: ToolCallFormat, turn: number, tools: readonly ToolSpec[] = []): ToolCallAttempt[] {
  return PARSERS[format](text, tools).map(({ call, source }, i) => ({ ...call, id: toolCallId(turn, i), text: source }));
}

/** The text before the first call, which a server that parses calls would return as content. */
export function textBeforeCalls(text: string, format: ToolCallFormat): string {
  const start = firstCallStart(text, format);
  return start === -1 ? text : text.slice(0, start).trimEnd();
}

/** Index after the first call and its closing tags; -1 if no other call follows it. */
export function endOfFirstCall(text: string, format: ToolCallFormat): number {
  const [first, second] = PARSERS[format](text, []);
  if (first === undefined || second === undefined) return -1;
  const start = firstCallStart(text, format);
  const inside = start + /^(?:<tool_call>)?/.exec(text.slice(start))![0].length;
  const end = text.indexOf(first.source, inside) + first.source.length;
  return end + /^(?:\s*<\/function>)?(?:\s*<\/tool_call>)?/.exec(text.slice(end))![0].length;
}

function firstCallStart(text: string, format: ToolCallFormat): number {
  if (format !== 'llama3') return text.search(format === 'hermes' ? /<tool_call>/ : /<tool_call>|<function=/);
  const [first] = parseBareCalls(text);
  return first === undefined ? -1 : text.indexOf(first.source);
}

/** True of `{ id, name, arguments }`, three texts: the form in which a policy gives a call. */
export function isToolCall(call: unknown): call is ToolCall {
  const { id, name, arguments: args } = fieldsOf(call);
  return [id, name, args].every((field) => typeof field === 'string');
}

/** Parses the arguments of a call that a server extracted from the text. */
export function readToolCall({ id, name, arguments: text }: ToolCall): ToolCallAttempt {
  const call = argumentsCall(name, text);
  return { ...call, id, text };
}

/** The call of a name and the JSON of its arguments; an empty text is none. */
export function argumentsCall(name: string, text: string): ParsedToolCall {
  return parseJson(text.trim() === '' ? '{}' : text, (args) => callOf(name, args, 'arguments'));
}

/** Unique within an episode of up to 1,000 turns with up to 100 calls each. */
export function toolCallId(turn: number, index: number): string {
  return `call${String(turn % 1000).padStart(3, '0')}${String(index % 100).padStart(2, '0')}`;
}

export interface FoundCall {
  readonly call: ParsedToolCall;
  /** As the model wrote it. */
  readonly source: string;
}

const PARSERS: Readonly<Record<ToolCallFormat, (text: string, tools: readonly ToolSpec[]) => FoundCall[]>> = {
  hermes: (text) => blocks(text, '<tool_call>', '</tool_call>').map((source) => ({ call: jsonCall(source, ['arguments']), source })),
  'qwen3-coder': parseXmlToolCalls,
  llama3: parseBareCalls,
};

/** The texts between the tags, in order. */
function blocks(text: string, open: string, close: string): string[] {
  const found: string[] = [];
  for (let at = text.indexOf(open); at !== -1;) {
    const start = at + open.length;
    const end = text.indexOf(close, start);
    found.push(text.slice(start, end === -1 ? undefined : end));
    if (end === -1) break;
    at = text.indexOf(open, end);
  }
  return found;
}

/** Takes the arguments from the first of `keys` that the object has; none if it has none of them. */
export function jsonCall(json: string, keys: readonly string[]): ParsedToolCall {
  return parseJson(json, (value) => {
    const fields = fieldsOf(value);
    const key = keys.find((one) => Object.hasOwn(fields, one)) ?? keys[0]!;
    if (!Object.hasOwn(fields, key) && Object.hasOwn(fields, 'parameters')) return { problem: `the call has "parameters" in place of "${key}"` };
    return callOf(fields['name'], fields[key] ?? {}, key);
  });
}

/** The call of a name and its arguments, which some servers and models encode twice: as a text that holds the object's JSON. */
function callOf(name: unknown, given: unknown, argumentsKey: string): ParsedToolCall {
  if (typeof name !== 'string') return { problem: 'the call has no "name"' };
  // A call without arguments has null, or an empty text.
  const args = given === null || given === '' ? {} : typeof given === 'string' ? (argumentsOrNull(given) ?? given) : given;
  if (!isObject(args)) return { problem: `"${argumentsKey}" is not an object` };
  return { name, args };
}

/** The model sees the parser's message, which shows where its call is broken. */
function parseJson(json: string, read: (value: unknown) => ParsedToolCall): ParsedToolCall {
  let value: unknown;
  try {
    value = JSON.parse(json, refuseRounded as (key: string, value: unknown) => unknown);
  } catch (error) {
    if (error instanceof RangeError) return { problem: `the call cannot be read: ${error.message}` };
    return { problem: `the call is not JSON (${(error as Error).message})` };
  }
  if (isDeeperThan(value, MOST_ARGUMENT_LEVELS)) return { problem: `the call is nested more than ${MOST_ARGUMENT_LEVELS} levels deep` };
  return read(value);
}

/** Objects with a name and arguments, anywhere in the text; other objects are not calls. As in vLLM, either key for arguments is accepted. */
function parseBareCalls(text: string): FoundCall[] {
  const found: FoundCall[] = [];
  const scan = objectScanner(text);
  for (let span = scan(0); span !== null;) {
    const end = span.end ?? text.length;
    const source = text.slice(span.start, end);
    const isCall = span.value === null ? BROKEN_CALL.test(source) : isBareCall(span.value);
    if (isCall) found.push({ call: jsonCall(source, ['arguments', 'parameters']), source });
    // A call that cannot be parsed is one attempt, even if it contains other objects.
    span = scan(isCall ? end : span.next);
  }
  return found;
}

/** Invalid JSON counts as a call if it begins like one. */
const BROKEN_CALL = /^\{\s*"name"\s*:/;

function isBareCall(value: JsonObject): boolean {
  return Object.hasOwn(value, 'name') && (Object.hasOwn(value, 'parameters') || Object.hasOwn(value, 'arguments'));
}
