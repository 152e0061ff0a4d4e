/**
 * Calls of tools as models write them in text, one parser for each family of chat templates. A parser never throws: a call that cannot be
 * read is an attempt with a problem, which the environment answers. All are linear in the text.
 */

import type { ToolCall } from './message.ts';

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
 * - `llama3`: `{"name", "parameters"}` as the whole turn, several separated by `;`
 */
export type ToolCallFormat = 'hermes' | 'qwen3-coder' | 'llama3';

/** The calls in a model's text, in order. An unclosed last call runs to the end of the text. @param format @default 'hermes' */
export function parseToolCalls(text: string, format: ToolCallFormat = 'hermes'): ParsedToolCall[] {
  return PARSERS[format](text).map(({ call }) => call);
}

/** The calls with ids that name their answers: nine letters and digits, as the strictest templates want them. `turn` counts from 0. */
export function toolCallAttempts(text: string, format: ToolCallFormat, turn: number): ToolCallAttempt[] {
  return PARSERS[format](text).map(({ call, source }, i) => ({ ...call, id: toolCallId(turn, i), text: source }));
}

/** A call that a server told apart from the text. */
export function readToolCall({ id, name, arguments: text }: ToolCall): ToolCallAttempt {
  const args = text.trim() === '' ? {} : parseJson(text);
  if (args === undefined) return { problem: 'the arguments of the call are not JSON', id, text };
  return { ...callOf(name, args, 'arguments'), id, text };
}

/** Unique within an episode of up to 1,000 turns with up to 100 calls each. */
export function toolCallId(turn: number, index: number): string {
  return `call${String(turn % 1000).padStart(3, '0')}${String(index % 100).padStart(2, '0')}`;
}

interface FoundCall {
  readonly call: ParsedToolCall;
  /** As the model wrote it. */
  readonly source: string;
}

const PARSERS: Readonly<Record<ToolCallFormat, (text: string) => FoundCall[]>> = {
  hermes: (text) => blocks(text, '<tool_call>', '</tool_call>').map((source) => ({ call: jsonCall(source, 'arguments'), source })),
  'qwen3-coder': () => [],
  llama3: () => [],
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

function jsonCall(json: string, argumentsKey: string): ParsedToolCall {
  const value = parseJson(json);
  if (value === undefined) return { problem: 'the call is not JSON' };
  const { name, [argumentsKey]: args = {} } = (value ?? {}) as Record<string, unknown>;
  return callOf(name, args, argumentsKey);
}

function callOf(name: unknown, args: unknown, argumentsKey: string): ParsedToolCall {
  if (typeof name !== 'string' || name === '') return { problem: 'the call has no "name"' };
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return { problem: `"${argumentsKey}" is not an object` };
  return { name, args: args as Record<string, unknown> };
}

/** Undefined for what is not JSON. The parser's own message would quote the text. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
