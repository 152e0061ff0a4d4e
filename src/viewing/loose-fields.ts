/** Reads fields of records that other programs may have written: a value of an unexpected type counts as missing. */
import { fieldsOf } from '../schemas/is-object.ts';

export type Fields = Readonly<Record<string, unknown>>;

export { fieldsOf };

export function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function numberOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A value as the text of a setting: no quotes around strings. Null if there is nothing to show. */
function shownValue(value: unknown): string | null {
  if (value === undefined || value === null || value === '') return null;
  if (typeof value === 'string') return value;
  const text = JSON.stringify(value);
  return text === '{}' || text === '[]' ? null : text;
}

export function factsOf(values: Readonly<Record<string, unknown>>): { name: string; value: string }[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const shown = shownValue(value);
    return shown === null ? [] : [{ name, value: shown.length > MOST_SHOWN ? `${shown.slice(0, MOST_SHOWN)} …` : shown }];
  });
}

const MOST_SHOWN = 2000;
