/** Reads TOML files in which every key must be known. An error names the file, the key and the known keys. */
import { ConfigError } from '../../core/errors.ts';
import { suggestion } from '../../core/closest-name.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { isObject } from '../../schemas/is-object.ts';
import { kindOf } from '../../schemas/kind-of.ts';

/** Throws ConfigError if the file cannot be read or is not TOML. */
export async function readToml(path: string): Promise<Record<string, unknown>> {
  let text: string;
  try {
    text = await readRegularFile(path);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a directory' : `it cannot be read (${code})`;
    throw new ConfigError(`Could not read the TOML file ${path}: ${why}`, { cause });
  }
  const { parse, TomlError } = await import('smol-toml');
  try {
    return parse(text);
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    // Only the first line: the library's message then quotes the file, which may hold a secret.
    const what = cause.message.split('\n')[0]!.replace(/^Invalid TOML document: /, '');
    throw new ConfigError(`${path} is not valid TOML: line ${cause.line}, column ${cause.column}: ${what}`, { cause });
  }
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
