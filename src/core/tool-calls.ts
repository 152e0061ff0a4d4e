/**
 * Calls of tools as models write them in text, one parser for each family of chat templates. A parser never throws: a call that cannot be
 * read is an attempt with a problem, which the environment answers. All are linear in the text.
 */
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import type { ToolCall } from './message.ts';
import { type JsonObject, objectScanner } from './object-scanner.ts';
import { parseXmlToolCalls } from './xml-tool-calls.ts';

/** What a model is shown of a tool. */
export interface ToolSpec {
  /** Letters, digits, `_` and `-`. */
  readonly name: string;
  /** What the tool does and when to call it, for the model. */
  readonly description: string;
  /** JSON Schema of the arguments object. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** A call as the model wrote it, or why it cannot be read. */
export type ParsedToolCall = { readonly name: string; readonly args: Record<string, unknown> } | { readonly problem: string };

/** A call with the id that its answer names. `text`: the arguments, or the whole call where it cannot be read, as the model wrote it. */
export type ToolCallAttempt = ParsedToolCall & { readonly id: string; readonly text: string };

/**
 * How a model spells a call:
 * - `hermes`: `<tool_call>{"name", "arguments"}</tool_call>` (Hermes, Qwen2.5, Qwen3)
 * - `qwen3-coder`: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`
 *   (Qwen3-Coder, Qwen3.5)
 * - `llama3`: `{"name", "parameters"}`, several separated by `;` or by anything else that is no object (Llama 3.1 to 3.3)
 */
export type ToolCallFormat = 'hermes' | 'qwen3-coder' | 'llama3';

/**
 * The calls in a model's text, in order. An unclosed last call runs to the end of the text. Where a format writes values without their types, `tools` say
 * what they are; without them they are strings. @param format @default 'hermes' @param tools @default none
 */
export function parseToolCalls(text: string, format: ToolCallFormat = 'hermes', tools: readonly ToolSpec[] = []): ParsedToolCall[] {
  return PARSERS[format](text, tools).map(({ call }) => call);
}

/** The calls with ids that name their answers: nine letters and digits, as the strictest templates want them. `turn` counts from 0. */
export function toolCallAttempts(text: string, format: ToolCallFormat, turn: number, tools: readonly ToolSpec[] = []): ToolCallAttempt[] {
  return PARSERS[format](text, tools).map(({ call, source }, i) => ({ ...call, id: toolCallId(turn, i), text: source }));
}

/** What a turn with calls says before its first one: the content that a server which parses the calls would give. */
export function textBeforeCalls(text: string, format: ToolCallFormat): string {
  const start = firstCallStart(text, format);
  return start === -1 ? text : text.slice(0, start).trimEnd();
}

function firstCallStart(text: string, format: ToolCallFormat): number {
  if (format !== 'llama3') return text.search(format === 'hermes' ? /<tool_call>/ : /<tool_call>|<function=/);
  const [first] = parseBareCalls(text);
  return first === undefined ? -1 : text.indexOf(first.source);
}

/** A call that a server told apart from the text. */
export function readToolCall({ id, name, arguments: text }: ToolCall): ToolCallAttempt {
  const call = parseJson(text.trim() === '' ? '{}' : text, (args) => callOf(name, args, 'arguments'));
  return { ...call, id, text };
}

/** Unique within an episode of up to 1,000 turns with up to 100 calls each. */
export function toolCallId(turn: number, index: number): string {
  return `call${String(turn % 1000).padStart(3, '0')}${String(index % 100).padStart(2, '0')}`;
}

/** A call where it stands in the text. */
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

/** What stands between the tags, in order. */
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

/** The first of `keys` that the object has holds the arguments; without any there are none. */
function jsonCall(json: string, keys: readonly string[]): ParsedToolCall {
  return parseJson(json, (value) => {
    const fields = fieldsOf(value);
    const key = keys.find((one) => Object.hasOwn(fields, one)) ?? keys[0]!;
    return callOf(fields['name'], fields[key] ?? {}, key);
  });
}

function callOf(name: unknown, args: unknown, argumentsKey: string): ParsedToolCall {
  if (typeof name !== 'string') return { problem: 'the call has no "name"' };
  if (!isObject(args)) return { problem: `"${argumentsKey}" is not an object` };
  return { name, args };
}

/** The parser's message goes to the model: it says where its call breaks off. */
function parseJson(json: string, read: (value: unknown) => ParsedToolCall): ParsedToolCall {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    return { problem: `the call is not JSON (${(error as Error).message})` };
  }
  return read(value);
}

/** Objects with a name and arguments, wherever in the text; other objects and the text around them are no calls. As vLLM, either key does. */
function parseBareCalls(text: string): FoundCall[] {
  const found: FoundCall[] = [];
  const scan = objectScanner(text);
  for (let span = scan(0); span !== null;) {
    const end = span.end ?? text.length;
    const source = text.slice(span.start, end);
    const isCall = span.value === null ? BROKEN_CALL.test(source) : isBareCall(span.value);
    if (isCall) found.push({ call: jsonCall(source, ['arguments', 'parameters']), source });
    // A call that cannot be read is one attempt, whatever objects it holds.
    span = scan(isCall ? end : span.next);
  }
  return found;
}

/** An object that is not JSON is taken for a call by how it begins. */
const BROKEN_CALL = /^\{\s*"name"\s*:/;

function isBareCall(value: JsonObject): boolean {
  return Object.hasOwn(value, 'name') && (Object.hasOwn(value, 'parameters') || Object.hasOwn(value, 'arguments'));
}
