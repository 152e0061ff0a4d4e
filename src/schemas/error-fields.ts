/** What a chat API or another server says of a failure, in the shapes that servers give it. Gateways wrap the error of the server behind them, often as a text. */
import { isObject } from './is-object.ts';
import { jsonOrNull } from './json-or-null.ts';

export interface ErrorFields {
  /** Codes and types, those of the outermost error first. */
  readonly codes: readonly string[];
  /** Names of the request's fields to which the error points. */
  readonly params: readonly string[];
  /** All that it says in words, without the request that it may repeat. */
  readonly message: string;
  /** Numbers by name, such as counts of tokens. */
  readonly numbers: ReadonlyMap<string, number>;
}

/** Number of bytes of an error response that are read. */
const READ_BYTES = 262_144;

/**
 * Most servers send `{error: {message, code, ...}}`, some `{error: "message"}`, `{message, code}`, `{errors: [...]}` or `{detail}`, Gemini a list of one, MiniMax
 * `{base_resp: {status_code, status_msg}}`. OpenRouter has the provider's response as a text in `error.metadata.raw`, LiteLLM and others in `error.message`. Pydantic and Zod
 * list what is wrong by place. A body that is not JSON is the message.
 */
export function errorFields(body: Buffer): ErrorFields {
  const text = body.subarray(0, READ_BYTES).toString('utf8');
  const found = { codes: [], params: [], messages: [], numbers: new Map<string, number>() } as Found;
  const json = jsonOrNull(text);
  if (json !== null) read(json, found, 0);
  const { messages, ...fields } = found;
  return { ...fields, message: messages.join('\n') || text.slice(0, 2000) };
}

interface Found {
  readonly codes: string[];
  readonly params: string[];
  readonly messages: string[];
  readonly numbers: Map<string, number>;
}

const CODES = ['code', 'type', 'status_code'];
const PARAMS = ['param', 'loc', 'path', 'keys'];
/** Fields that hold a message, or a further error as an object, a list or a text. */
const WITHIN = ['error', 'errors', 'base_resp', 'issues', 'detail', 'message', 'msg', 'status_msg', 'description', 'title', 'metadata', 'raw'];
const DEEPEST = 8;

function read(value: unknown, found: Found, depth: number): void {
  if (depth > DEEPEST) return;
  if (typeof value === 'string') return readText(value, found, depth);
  if (Array.isArray(value)) return value.slice(0, 50).forEach((entry: unknown) => read(entry, found, depth + 1));
  if (!isObject(value)) return;
  for (const [name, field] of Object.entries(value)) if (typeof field === 'number' && !found.numbers.has(name)) found.numbers.set(name, field);
  const texts = (name: string) => [value[name]].flat().filter((each) => typeof each === 'string' || typeof each === 'number');
  found.codes.push(...CODES.flatMap(texts).map(String));
  found.params.push(...PARAMS.flatMap(texts).map(String));
  for (const name of WITHIN) read(value[name], found, depth + 1);
}

/** A message, and the JSON that it may contain. */
function readText(text: string, found: Found, depth: number): void {
  const [from, to] = [text.search(/[[{]/), Math.max(text.lastIndexOf('}'), text.lastIndexOf(']')) + 1];
  const inner = from === -1 || to <= from ? null : jsonOrNull(text.slice(from, to));
  // A list of numbers or names is part of the message.
  if (isObject(inner) || (Array.isArray(inner) && inner.length > 0 && inner.every(isObject))) {
    read(inner, found, depth + 1);
    return readText(`${text.slice(0, from)} ${text.slice(to)}`, found, depth + 1);
  }
  const said = text.replace(OF_PYTHON, (_quoted, _mark, _other, message: string) => message).trim();
  if (said !== '') found.messages.push(said);
}

/** A message in the printed form of a Python dictionary, which gateways in Python put into their own. */
const OF_PYTHON = /(['"])message\1: *(["'])((?:\\.|(?!\2)[^\\])*)\2/g;
