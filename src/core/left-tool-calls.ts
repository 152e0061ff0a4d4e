/**
 * Tool calls that a chat server left in its text, because it has no parser for the model's spelling or none is switched on. The spelling is recognised by its first tag.
 * Token policies know their spelling (tool-calls.ts).
 */
import { jsonObjects } from './json-reply.ts';
import { isObject } from '../schemas/is-object.ts';
import { argumentsOrNull } from '../schemas/arguments-or-null.ts';
import { pythonCalls } from './python-calls.ts';
import { afterClosedThoughts, afterThoughts, outsideThoughts } from './text-outside-thoughts.ts';
import { argumentsCall, type FoundCall, jsonCall, parseToolCalls, type ToolCallAttempt, toolCallId, type ToolSpec } from './tool-calls.ts';
import { argumentReader } from './xml-tool-calls.ts';

interface Spelling {
  /** The beginning of the first call. */
  readonly opening: RegExp;
  /** The calls in the text from there on. */
  readonly read: (text: string, tools: readonly ToolSpec[]) => FoundCall[];
}

export interface LeftCalls {
  readonly attempts: readonly ToolCallAttempt[];
  /** The text before the first call, which a server that parses calls would return as content. */
  readonly content: string;
}

/** The calls of a turn. `turn` counts from 0. Only a text that begins like a call of a known spelling has any. */
export function leftToolCalls(text: string, turn: number, tools: readonly ToolSpec[]): LeftCalls {
  // A call inside closed thoughts is only a mention. If the thoughts are never closed, the call counts.
  const first = firstCall(outsideThoughts(text)) ?? firstCall(text, afterClosedThoughts(text));
  const bare = first === null ? bareCalls(afterThoughts(text), tools) : [];
  const found = first === null ? bare : first.read(text.slice(first.start), tools);
  if (found.length === 0) return { attempts: [], content: text };
  return {
    attempts: found.map(({ call, source }, i) => ({ ...call, id: toolCallId(turn, i), text: source })),
    content: first === null ? '' : text.slice(0, first.start).trimEnd(),
  };
}

function firstCall(text: string, from = 0): { readonly start: number; readonly read: Spelling['read'] } | null {
  let first: { readonly start: number; readonly read: Spelling['read'] } | null = null;
  for (const { opening, read } of SPELLINGS) {
    const at = text.slice(from).search(opening);
    if (at !== -1 && (first === null || from + at < first.start)) first = { start: from + at, read };
  }
  return first;
}

const SPELLINGS: readonly Spelling[] = [
  // Functionary 3.1 and Llama 3.1, with the arguments as JSON.
  { opening: /(?:<tool_call>\s*)?<function=[\w.-]+>\s*\{/, read: functionCalls },
  // Command R and A, Granite 4, Hunyuan, MiniMax M1, Jamba, Nemotron, InternLM, Apertus and Phi 4: JSON in tags of their own.
  {
    opening:
      /<\|START_ACTION\|>|Action:\s*```(?:json)?\s*\[|<tool_calls?>\s*\[|<tool_calls>\s*\{|<TOOLCALL>|<\|action_start\|>\s*<\|plugin\|>|<\|tools_prefix\|>|\bfunctools\s*\[\s*\{/,
    read: listedCalls,
  },
  // Gemma 4.
  { opening: /<\|tool_call>\s*call:/, read: gemmaCalls },
  // Gemma 3, LFM2, Llama and Olmo 3: calls of Python.
  { opening: /```tool_code|<\|tool_call_start\|>|<\|python_(?:tag|start)\|>\s*[\w[]|<function_calls>\s*\[?[\w.]+\(/, read: pythonCalls },
  // Functionary 3.2.
  { opening: />>>(?!all\n)[\w.-]+\n\s*\{/, read: recipientCalls },
  { opening: /<tool_call>(?!\s*(<function=|[\w.-]+\s*(\n|<arg_key>|<\/tool_call>)))/, read: (text) => parsed(text, 'hermes') },
  // Qwen3-Coder and Seed-OSS.
  { opening: /(?:<(?:seed:)?tool_call>\s*)?<function=/, read: (text, tools) => parsed(text, 'qwen3-coder', tools) },
  // GLM.
  { opening: /<tool_call>\s*[\w.-]+\s*(\n|<arg_key>|<\/tool_call>)/, read: glmCalls },
  // MiniMax, Claude, DeepSeek V3.2 (which writes a bar around DSML in each tag).
  {
    opening: /<(?:\|?｜?DSML｜?\|?)?(?:antml:|minimax:)?(?:function_calls|tool_calls?)>\s*<[^>]*invoke name=|<(?:｜DSML｜|antml:)?invoke name=/,
    read: invokeCalls,
  },
  // Mistral.
  { opening: /\[TOOL_CALLS\]/, read: mistralCalls },
  // DeepSeek V3, R1 and V3.1.
  { opening: /<｜tool▁calls?▁begin｜>/, read: deepseekCalls },
  // Kimi K2.
  { opening: /<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>/, read: kimiCalls },
  // gpt-oss. White space is only looked for behind a tag: thoughts are blanks here, and a search from each of them would take quadratic time.
  { opening: /(?:<\|start\|>assistant\s*)?(?:<\|channel\|>(?:commentary|analysis)\s*)?to=functions\./, read: harmonyCalls },
  { opening: /<\|python_tag\|>\s*\{/, read: (text) => parsed(text, 'llama3') },
  // Granite and Phi.
  { opening: /<\|tool_call\|>\s*[[{]/, read: (text) => jsonList(text.replace(/^<\|tool_call\|>/, '').replace(/<\|\/tool_call\|>[^]*$/, '')) },
];

function parsed(text: string, format: 'hermes' | 'qwen3-coder' | 'llama3', tools: readonly ToolSpec[] = []): FoundCall[] {
  return parseToolCalls(text, format, tools).map((call) => ({ call, source: 'problem' in call ? text : JSON.stringify(call.args) }));
}

function glmCalls(text: string, tools: readonly ToolSpec[]): FoundCall[] {
  return pieces(text, '<tool_call>', '</tool_call>').map((source) => {
    const name = /^\s*([\w.-]+)/.exec(source)?.[1] ?? '';
    const typed = argumentReader(name, tools);
    const pairs = [...source.matchAll(/<arg_key>([^<]*)<\/arg_key>\s*<arg_value>([^]*?)(?:<\/arg_value>|$)/g)];
    return { call: { name, args: Object.fromEntries(pairs.map(([, key = '', value = '']) => [key.trim(), typed(key.trim(), value)])) }, source };
  });
}

function invokeCalls(text: string, tools: readonly ToolSpec[]): FoundCall[] {
  return text
    .split(/<(?:｜DSML｜|antml:)?invoke name=/)
    .slice(1)
    .map((source) => {
      const name = /^["']?([^"'>]+)/.exec(source)?.[1]?.trim() ?? '';
      const typed = argumentReader(name, tools);
      const args: Record<string, unknown> = {};
      for (const part of source.split(/<(?:｜DSML｜|antml:)?parameter name=/).slice(1)) {
        const match = /^["']?([^"'>]+)(?:["']([^>]*))?>([^]*?)(?:<\/(?:｜DSML｜|antml:)?parameter>|$)/.exec(part);
        if (match === null) continue;
        const [, key = '', attributes = '', value = ''] = match;
        args[key] = /string="false"/.test(attributes) ? (argumentsOrNull(value) ?? value) : typed(key, value);
      }
      return { call: { name, args }, source };
    });
}

/** `[TOOL_CALLS][{"name", "arguments"}]`, and `[TOOL_CALLS]name[ARGS]{…}` since Magistral. */
function mistralCalls(text: string): FoundCall[] {
  const parts = text.split('[TOOL_CALLS]').slice(1);
  return parts.flatMap((part) => {
    const [name, args] = part.split(/\[CALL_ID\][^[]*\[ARGS\]|\[ARGS\]/, 2) as [string, string | undefined];
    if (args !== undefined) return [{ call: argumentsCall(name.trim(), withoutEndTag(args)), source: part }];
    const bare = /^\s*([\w.-]+)\s*(\{[^]*)$/.exec(part);
    if (bare !== null) return [{ call: argumentsCall(bare[1]!, withoutEndTag(bare[2]!)), source: part }];
    return jsonList(withoutEndTag(part));
  });
}

function deepseekCalls(text: string): FoundCall[] {
  return pieces(text, '<｜tool▁call▁begin｜>', '<｜tool▁call▁end｜>').map((source) => {
    const [head = '', rest = ''] = source.split('<｜tool▁sep｜>', 2);
    const fenced = /^\s*([\w.-]+)\s*\n```(?:json)?\s*([^]*?)(?:```|$)/.exec(rest);
    return { call: fenced === null ? argumentsCall(head.trim(), rest) : argumentsCall(fenced[1]!, fenced[2]!), source };
  });
}

function kimiCalls(text: string): FoundCall[] {
  return pieces(text, '<|tool_call_begin|>', '<|tool_call_end|>').map((source) => {
    const [head = '', args = ''] = source.split('<|tool_call_argument_begin|>', 2);
    const name = head
      .trim()
      .replace(/^functions\./, '')
      .replace(/:\d+$/, '');
    return { call: argumentsCall(name, args), source };
  });
}

function harmonyCalls(text: string): FoundCall[] {
  return text
    .split('to=functions.')
    .slice(1)
    .map((source) => {
      const name = /^[\w.-]+/.exec(source)?.[0] ?? '';
      const [, args = ''] = source.split('<|message|>', 2);
      return { call: argumentsCall(name, args.replace(/<\|(call|end|return|start|channel)\|>[^]*$/, '')), source };
    });
}

/** `<function=name>{…}</function>` */
function functionCalls(text: string): FoundCall[] {
  return pieces(text, '<function=', '</function>').map((source) => {
    const [name = '', ...rest] = source.split('>');
    return { call: argumentsCall(name.trim(), rest.join('>')), source };
  });
}

/** `<|tool_call>call:name{key:<|"|>text<|"|>,other:2}<tool_call|>` */
function gemmaCalls(text: string): FoundCall[] {
  return pieces(text, '<|tool_call>', '<tool_call|>').map((source) => {
    const [, name = '', args = ''] = /^\s*call:([\w.-]+)\s*([^]*)$/.exec(source) ?? [];
    const json = args.replaceAll(/<\|"\|>([^]*?)<\|"\|>|([{,]\s*)([\w.-]+)\s*:/g, (_, value: string | undefined, before: string, key: string) =>
      value === undefined ? `${before}${JSON.stringify(key)}:` : JSON.stringify(value),
    );
    return { call: argumentsCall(name, json), source };
  });
}

/** `>>>name` and the arguments on the next line; `>>>all` is text for the user. */
function recipientCalls(text: string): FoundCall[] {
  return text
    .split('>>>')
    .slice(1)
    .filter((source) => !source.startsWith('all\n'))
    .map((source) => {
      const end = source.indexOf('\n');
      return { call: argumentsCall(source.slice(0, end).trim(), source.slice(end)), source };
    });
}

/** The JSON between the tags: a list, an object, or an object on each line. */
function listedCalls(text: string, tools: readonly ToolSpec[]): FoundCall[] {
  const start = text.search(/[[{]/);
  const json = start === -1 ? '' : text.slice(start, Math.max(text.lastIndexOf(']'), text.lastIndexOf('}')) + 1);
  const objects = argumentsOrNull(json) === null ? jsonObjects(json) : [];
  return jsonList(objects.length > 0 ? JSON.stringify(objects) : json, tools);
}

/** A list of calls, or one. */
function jsonList(text: string, tools: readonly ToolSpec[] = []): FoundCall[] {
  const value = argumentsOrNull(text);
  const calls = Array.isArray(value) ? (value as unknown[]) : value === null ? [] : [value];
  if (calls.length === 0) return [{ call: jsonCall(text, ['arguments']), source: text }];
  return calls
    .filter((call) => !isNoCall(call))
    .map((call) => {
      const source = JSON.stringify(named(call, tools));
      return { call: jsonCall(source, ['arguments', 'parameters']), source };
    });
}

/** A call with its name in "name": others have it in "tool_name", in "function", or as the only key. */
function named(call: unknown, tools: readonly ToolSpec[]): unknown {
  if (!isObject(call)) return call;
  if (isObject(call['function'])) return call['function'];
  if (typeof call['tool_name'] === 'string') return { name: call['tool_name'], arguments: call['parameters'] ?? call['arguments'] ?? {} };
  const [key, ...others] = Object.keys(call);
  return others.length === 0 && tools.some(({ name }) => name === key) ? { name: key, arguments: call[key!] } : call;
}

/** Command R's way to say that it calls no tool. */
function isNoCall(call: unknown): boolean {
  return isObject(call) && /^directly[-_]answer$/.test(String(call['tool_name'] ?? call['name']));
}

/** A text that is nothing but calls of offered tools, as JSON or as Python. */
function bareCalls(text: string, tools: readonly ToolSpec[]): FoundCall[] {
  const inner = withoutFence(text.trim());
  if (/^\[?\s*[\w.-]+\([^]*\)\s*\]?$/.test(inner)) return pythonCalls(inner, tools);
  if (!/^[[{]/.test(inner)) return [];
  const value = argumentsOrNull(inner);
  const calls: readonly unknown[] = Array.isArray(value) ? value : [value];
  const isCall = (call: unknown) =>
    isObject(call) && tools.some(({ name }) => name === call['name']) && (isObject(call['arguments']) || isObject(call['parameters']));
  return calls.length > 0 && calls.every(isCall) ? jsonList(inner) : [];
}

/** The content of the fenced block if the whole text is one; otherwise the text unchanged. */
function withoutFence(text: string): string {
  if (!text.startsWith('```') || !text.endsWith('```') || text.length < 6) return text;
  return text
    .slice(3, -3)
    .replace(/^(?:json|python)/, '')
    .trim();
}

/** The texts between the tags, in order; the last may be open. */
function pieces(text: string, open: string, close: string): string[] {
  return text
    .split(open)
    .slice(1)
    .map((piece) => piece.split(close, 1)[0]!);
}

function withoutEndTag(text: string): string {
  return text.replace(/<\/s>\s*$/, '').trim();
}
