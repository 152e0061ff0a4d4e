/** Reads the JSON of a request as it is meant in ids and words, and as it is meant in every other field. */
import { readExactJson, readJson } from '../../core/read-json.ts';

export interface RequestJson {
  /** With every digit of its numbers: one that a double would round is text. */
  readonly value: unknown;
  /** With numbers alone, which a field that takes no number must refuse; `value` itself if they are the same. */
  readonly rounded: unknown;
}

/** @param isWord as for `readExactJson`. Throws as `readJson` does. */
export function readRequestJson(text: string, isWord?: (key: string) => boolean): RequestJson {
  let hasNumberAsText = false;
  const value = readExactJson(text, { ...(isWord && { isWord }), onNumberAsText: () => void (hasNumberAsText = true) });
  return { value, rounded: hasNumberAsText ? readJson(text) : value };
}
