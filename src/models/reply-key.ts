import { createHash } from 'node:crypto';
import type { Message } from '../core/message.ts';
import type { ModelRequest } from '../core/model.ts';
import { isObject } from '../schemas/is-object.ts';

/**
 * What decides a reply, as a SHA-256: who is asked (`identity`: model and place) and everything that is sent. Null where the request draws at
 * random: a second draw is another reply. `data` is never sent and decides nothing.
 */
export function replyKey(
  identity: string,
  messages: readonly Message[],
  { maxTokens, stop = [], sampling = {}, responseSchema }: ModelRequest,
): string | null {
  const { temperature = 0, topP = 1, extra = {} } = sampling;
  if (temperature !== 0) return null;
  const request = { identity, messages, maxTokens, stop, topP, extra, responseSchema: responseSchema ?? null };
  return createHash('sha256').update(JSON.stringify(request, inOrder)).digest('hex');
}

/** Objects with their keys in order, so that equal requests are equal text. */
function inOrder(_key: string, value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
