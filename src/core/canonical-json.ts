import { isObject } from '../schemas/is-object.ts';

/** JSON text with its keys in order. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const entries = Object.keys(value)
    .toSorted()
    .filter((key) => value[key] !== undefined);
  return `{${entries.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`).join(',')}}`;
}
