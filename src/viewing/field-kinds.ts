/** Says of a field that its value is of another kind than its writer gives it. The viewer counts such a value as missing. Null is of every kind: it stands for nothing. */
import { fieldsOf, type Fields } from './loose-fields.ts';
import type { FieldFinder } from './top-level-fields.ts';

export type FieldKind = 'text' | 'number' | 'flag' | 'list' | 'object';

const WANTED: Readonly<Record<FieldKind, string>> = {
  text: 'a text',
  number: 'a finite number',
  flag: 'true or false',
  list: 'a list',
  object: 'an object',
};
const SHOWN_CHARACTERS = 30;

export type FieldKinds = Readonly<Record<string, FieldKind | readonly FieldKind[]>>;

/** Of the fields that a finder has found, by their first byte. */
export class FoundKinds {
  readonly #fields: readonly { readonly name: string; readonly place: number; readonly kinds: readonly FieldKind[] }[];

  /** @param names those of the finder */
  constructor(names: readonly string[], kinds: FieldKinds) {
    this.#fields = Object.entries(kinds).map(([name, wanted]) => ({ name, place: names.indexOf(name), kinds: [wanted].flat() }));
  }

  /** The first field with another kind of value, in words; null if there is none. */
  problem(finder: FieldFinder): string | null {
    for (const { name, place, kinds } of this.#fields) {
      const kind = finder.kind(place);
      if (kind === 'missing' || kind === 'null') continue;
      const isRight = kind !== null && kinds.includes(kind) && (kind !== 'number' || Number.isFinite(finder.number(place)));
      if (!isRight) return wrongKind(name, finder.text(place)!, kinds);
    }
    return null;
  }
}

/** Of a parsed record: the first field with another kind of value, in words; null if there is none. */
export function kindProblem(record: Fields, kinds: FieldKinds): string | null {
  for (const [name, wanted] of Object.entries(kinds)) {
    const value = record[name];
    if (value === undefined || value === null || [wanted].flat().some((kind) => isOf(kind, value))) continue;
    return wrongKind(name, shownValue(value), [wanted].flat());
  }
  return null;
}

/** The first value that is neither a finite number nor null; null if there is none. @param values read from JSON */
export function numberProblem(values: unknown, name: string): string | null {
  const found = Object.entries(fieldsOf(values)).find(([, value]) => value !== null && !isOf('number', value));
  return found === undefined ? null : wrongKind(`${name}${found[0]}`, shownValue(found[1]), ['number']);
}

function isOf(kind: FieldKind, value: unknown): boolean {
  if (kind === 'list') return Array.isArray(value);
  if (kind === 'number') return typeof value === 'number' && Number.isFinite(value);
  if (kind === 'object') return typeof value === 'object' && !Array.isArray(value);
  return typeof value === (kind === 'text' ? 'string' : 'boolean');
}

function shownValue(value: unknown): string {
  // JSON has no infinity, so that a number such as 1e999 becomes one.
  return typeof value === 'number' && !Number.isFinite(value) ? 'too large a number' : JSON.stringify(value);
}

function wrongKind(name: string, json: string, kinds: readonly FieldKind[]): string {
  const shown = json.length > SHOWN_CHARACTERS ? `${json.slice(0, SHOWN_CHARACTERS).toWellFormed()}…` : json;
  return `${name.slice(0, 2 * SHOWN_CHARACTERS).toWellFormed()} is ${shown} where ${kinds.map((kind) => WANTED[kind]).join(' or ')} belongs`;
}
