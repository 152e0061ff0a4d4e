/** Checks HTTP headers that a user gives. Errors show no value, which may be a credential. */
import { ConfigError } from '../../core/errors.ts';
import { isObject } from '../../schemas/is-object.ts';

/**
 * A table of texts, or a list of "Name: value".
 * @param where the user's name for it, for errors
 * Throws ConfigError.
 */
export function checkHeaders(value: unknown, where: string): Readonly<Record<string, string>> {
  if (Array.isArray(value) && value.every((header) => typeof header === 'string')) {
    return Object.assign({}, ...value.map((header) => parseHeader(header, where)));
  }
  const table = isObject(value) ? Object.entries(value) : null;
  if (table === null || !table.every(([, text]) => typeof text === 'string')) {
    throw new ConfigError(`${where} must be a table of strings or a list of "Name: value"`);
  }
  return Object.assign({}, ...table.map(([name, text]) => parseHeader(`${name}: ${String(text)}`, where)));
}

/** One header from "Name: value". Throws ConfigError. */
export function parseHeader(text: string, where: string): Record<string, string> {
  const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(?!\s)([\t\x20-\x7e\x80-\xff]*)$/.exec(text.trim());
  if (match === null) throw new ConfigError(`${where} must be "Name: value". The given value is not shown because it may be a secret.`);
  return { [match[1]!]: match[2]! };
}
