import { createHash } from 'node:crypto';
import type { Message } from '../core/message.ts';
import type { ModelRequest } from '../core/model.ts';
import { isObject } from '../schemas/is-object.ts';

/**
 * The SHA-256 of everything that determines a reply: `identity` (model and server) and the request. Null if the request samples, because its reply is
 * random. `data` is not part of the key: it is never sent.
 */
export function replyKey(
  identity: string,
  messages: readonly Message[],
  { maxTokens, stop = [], sampling = {}, responseSchema }: ModelRequest,
): string | null {
  const { temperature = 0, topP = 1, extra = {}, leaveOut = [] } = sampling;
  // Further fields override the request's own.
  if ((extra['temperature'] ?? temperature) !== 0) return null;
  const without = leaveOut.length === 0 ? {} : { leaveOut: leaveOut.toSorted() };
  const request = { identity, messages, maxTokens, stop, topP: topP ?? 1, extra, responseSchema: responseSchema ?? null, ...without };
  return createHash('sha256').update(JSON.stringify(request, inOrder)).digest('hex');
}

/** Sorts the keys of objects, so that equal requests give equal JSON. */
function inOrder(_key: string, value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
