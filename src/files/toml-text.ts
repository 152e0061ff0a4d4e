/** Reads TOML. An error names the file and the place, or the key and the known keys, and never quotes the text, which may hold a secret. */
import { parse, TomlError } from 'smol-toml';
import { suggestion } from '../core/closest-name.ts';
import { ConfigError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { kindOf } from '../schemas/kind-of.ts';
import { systemText } from './system-text.ts';
import { readUserText, readUserTextSync } from './user-text.ts';

/**
 * @param name of the text in an error, such as its path
 * Throws ConfigError if the text is not TOML.
 */
export function parseToml(text: string, name: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    // Only the first line: the library's message then quotes the file.
    const what = cause.message.split('\n')[0]!.replace(/^Invalid TOML document: /, '');
    throw new ConfigError(`${name} is not valid TOML: line ${cause.line}, column ${cause.column}: ${what}`, { cause });
  }
}

/** Throws ConfigError if the file cannot be read or is not TOML. */
export async function readToml(path: string): Promise<Record<string, unknown>> {
  return parseToml(await readUserText(path).catch((cause: unknown) => Promise.reject(unreadable(path, cause))), path);
}

/** As `readToml`. */
export function readTomlSync(path: string): Record<string, unknown> {
  let text: string;
  try {
    text = readUserTextSync(path);
  } catch (cause) {
    throw unreadable(path, cause);
  }
  return parseToml(text, path);
}

function unreadable(path: string, cause: unknown): unknown {
  if (cause instanceof ConfigError) return cause;
  const { code } = cause as NodeJS.ErrnoException;
  const why = code === 'ENOENT' ? 'there is no such file' : systemText(cause);
  return new ConfigError(`Could not read the TOML file ${path}: ${why}`, { cause });
}

/** The tables of `[[name]]`; none if the key is absent. */
export function tablesOf(document: Readonly<Record<string, unknown>>, name: string, path: string): readonly Record<string, unknown>[] {
  const value = document[name] ?? [];
  if (!Array.isArray(value) || !value.every(isObject)) throw new ConfigError(`${name} in ${path} must be [[${name}]] tables, got ${typeOf(value)}`);
  return value;
}

export function assertKnownKeys(table: Readonly<Record<string, unknown>>, known: readonly string[], where: string): void {
  for (const key of Object.keys(table)) {
    if (known.includes(key)) continue;
    throw new ConfigError(`Unknown key "${key}" in ${where}${suggestion(key, known)}; known are ${known.join(', ')}`);
  }
}

export function typeOf(value: unknown): string {
  return isObject(value) ? 'a table' : kindOf(value);
}
