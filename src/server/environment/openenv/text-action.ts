import { isObject } from '../../../schemas/is-object.ts';
import { kindOf } from '../../../schemas/kind-of.ts';
import { WireError } from './wire-error.ts';

export interface TextAction {
  readonly text: string;
  /** Null if the caller does not say. */
  readonly finish: 'stop' | 'length' | null;
}

const KEYS = ['text', 'metadata'];

/** Under this key a number stands for a model's words, of which every digit counts: 12345678901234567890, or 1.0. */
export const isWord = (key: string): boolean => key === 'text';

/** Reads an action. A client that tries to read a model's words as JSON sends `42` for "42", so numbers and booleans are words too. Throws WireError. */
export function textAction(action: unknown): TextAction {
  if (!isObject(action)) throw refused(`The action is ${kindOf(action)}.`);
  const stranger = Object.keys(action).find((key) => !KEYS.includes(key));
  if (stranger !== undefined) throw refused(`The action has the key ${JSON.stringify(stranger.slice(0, 64))}, which is unknown.`);
  const { text, metadata = {} } = action;
  if (!isObject(metadata)) throw refused(`The action's metadata is ${kindOf(metadata)}.`);
  if (typeof text !== 'string' && typeof text !== 'number' && typeof text !== 'boolean') throw refused(`The action's text is ${kindOf(text)}.`);
  const { finish_reason: finish } = metadata;
  return { text: String(text), finish: finish === 'stop' || finish === 'length' ? finish : null };
}

function refused(what: string): WireError {
  return new WireError('VALIDATION_ERROR', `${what} Send {"text": "..."} with what the model wrote.`);
}
