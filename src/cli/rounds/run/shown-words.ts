import { readJson } from '../../../core/read-json.ts';
import { isObject } from '../../../schemas/is-object.ts';
import { hideSecrets, isSecretName, redactUrl } from '../../../transport/redact.ts';

/** The words of a command as they may be shown and kept: without passwords in URLs and without values under secret names, in JSON and in `name=value`. */
export function shownWords(words: readonly string[]): string[] {
  return words.map((word) => {
    const fields = parsedFields(word);
    if (fields !== null) return JSON.stringify(hideSecrets(fields));
    const at = word.indexOf('=');
    return at > 0 && isSecretName(word.slice(0, at)) ? `${word.slice(0, at)}=***` : redactUrl(word);
  });
}

function parsedFields(word: string): object | null {
  if (!word.startsWith('{')) return null;
  try {
    const value = readJson(word);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
