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
  if (typeof value !== 'number') return String(value);
  // In TOML 1e6 is not an integer. Those beyond a double's exact range must be floats.
  if (Number.isInteger(value)) return Number.isSafeInteger(value) ? String(value) : value.toExponential().replace('e+', 'e');
  return settingNumber(value);
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
