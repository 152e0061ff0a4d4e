import { readJson } from '../core/read-json.ts';
import { isFlagged } from './credentials.ts';
import { hideSecrets, isSecretName, redactUrl } from './redact.ts';

/**
 * The words of a command as they may be shown and kept: without passwords in URLs and without values under secret names, in JSON, in `name=value`, in a header
 * `Name: value` and after a flag of such a name.
 */
export function shownWords(words: readonly string[]): string[] {
  return words.map((word, i) => (isFlagged(words[i - 1], word) ? '***' : shownWord(word)));
}

function shownWord(word: string): string {
  const fields = parsedFields(word);
  if (fields !== null) return JSON.stringify(hideSecrets(fields));
  const [, name, between, value] = /^([^=:\s]+)(=|:\s+)(.*)$/s.exec(word) ?? [];
  if (name === undefined) return redactUrl(word);
  if (isSecretName(name)) return `${name}${between}***`;
  // The value may have a name of its own, as in `--set=roles.judge.api_key=...`.
  return redactUrl(`${name}${between}${shownWord(value!)}`);
}

function parsedFields(word: string): object | null {
  if (!word.startsWith('{')) return null;
  try {
    // Text that begins so is an object, or not JSON.
    return readJson(word) as object;
  } catch {
    return null;
  }
}
