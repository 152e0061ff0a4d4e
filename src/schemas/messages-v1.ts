/** Rows of demonstrations in the form of DDAI's files: `{uid, format_version: "v1", messages}`; `messages` is a list, or its JSON as text. */
import { isObject } from './is-object.ts';
import { nestingProblem } from './nesting.ts';
import { jsonOrNull } from './json-or-null.ts';

/** A message. A picture is a path or the SHA-256 of its bytes. */
export interface MessageV1 {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string | readonly PartV1[];
  /** Weight of an assistant's message in the loss. @default 1 */
  readonly weight?: number;
}

type PartV1 = { readonly image: string } | { readonly text: string };

export interface RowV1 {
  readonly uid: string;
  readonly messages: readonly MessageV1[];
}

const ROLES = ['system', 'user', 'assistant'] as const;

/** The row, or a description of its fault: the key, its value and the allowed values. Never throws. Further columns are allowed. */
export function parseRowV1(fields: Readonly<Record<string, unknown>>): RowV1 | string {
  const { uid, format_version: version, messages } = fields;
  const tooDeep = nestingProblem(fields);
  if (tooDeep !== null) return tooDeep;
  if (typeof uid !== 'string' || uid === '') return `"uid" must be the id of the row, got ${shown(uid)}`;
  if (version !== 'v1') return `"format_version" must be "v1", got ${shown(version)}`;
  const list = typeof messages === 'string' ? jsonOrNull(messages) : messages;
  const tooDeepText = nestingProblem({ messages: list });
  if (tooDeepText !== null) return tooDeepText;
  if (!Array.isArray(list) || list.length === 0) return `"messages" must be a list of messages, or its JSON as text, got ${shown(messages)}`;
  for (const [i, message] of list.entries()) {
    const problem = messageProblem(message);
    if (problem !== null) return `messages[${i}]${problem}`;
  }
  return { uid, messages: list as MessageV1[] };
}

/** Greatest weight of a token in the loss: sums of larger ones would leave float32. */
export const MOST_WEIGHT = 1e6;

function messageProblem(message: unknown): string | null {
  if (!isObject(message)) return ` must be an object, got ${shown(message)}`;
  const { role, content, weight } = message;
  if (!ROLES.some((known) => known === role)) return `.role must be ${ROLES.join(', ')}, got ${shown(role)}`;
  if (weight !== undefined && (typeof weight !== 'number' || !(weight >= 0 && weight <= MOST_WEIGHT)))
    return `.weight must be a number from 0 to ${MOST_WEIGHT}, got ${shown(weight)}`;
  if (typeof content === 'string') return null;
  if (role === 'assistant') return `.content must be text, got ${shown(content)}`;
  if (!Array.isArray(content) || content.length === 0)
    return `.content must be text or a list of {"image": ...} and {"text": ...}, got ${shown(content)}`;
  const at = content.findIndex((part) => !isObject(part) || (typeof part['image'] === 'string') === (typeof part['text'] === 'string'));
  return at === -1 ? null : `.content[${at}] must be {"image": path or SHA-256} or {"text": text}, got ${shown(content[at])}`;
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 100);
}
