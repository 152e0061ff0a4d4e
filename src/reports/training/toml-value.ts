/** Writes a value as TOML on one line. */
import { settingNumber } from '../../core/setting-number.ts';
import { isObject } from '../../schemas/is-object.ts';

/** TOML has no null: tables and lists leave it out. Dates become strings. */
export function tomlValue(value: unknown): string {
  if (typeof value === 'string') return tomlString(value);
  if (Array.isArray(value)) return `[${value.filter(isWritten).map(tomlValue).join(', ')}]`;
  if (isObject(value)) {
    const entries = Object.entries(value).filter(([, inner]) => isWritten(inner));
    return entries.length === 0 ? '{}' : `{ ${entries.map(([key, inner]) => `${tomlKey(key)} = ${tomlValue(inner)}`).join(', ')} }`;
  }
  if (value instanceof Date) return tomlString(value.toISOString());
  if (typeof value === 'number' && !Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  // TOML's integers have 64 bits, and 1e6 is no integer; beyond a double's exact range write a float.
  return typeof value === 'number' && !Number.isSafeInteger(value) ? settingNumber(value) : String(value);
}

function isWritten(value: unknown): boolean {
  return value !== null && value !== undefined;
}

function tomlKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : tomlString(key);
}

/** JSON's escapes are valid TOML, except for DEL and lone surrogates. */
function tomlString(text: string): string {
  return JSON.stringify(text.toWellFormed()).replaceAll('\u007f', '\\u007f');
}
