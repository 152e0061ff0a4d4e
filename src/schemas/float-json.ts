/**
 * JSON text in which columns of type `number` are always floats: `1.0`, not `1`. Readers that infer types from the text (Arrow, and with it Hugging Face `datasets`)
 * then find the same types in every file. `integer` columns, and values that the schema leaves open, are written as JSON.stringify writes them; so is the rest of
 * the text.
 */
import type { XStatic } from 'typebox/schema';
import { isObject } from './is-object.ts';
import { wellFormedJson } from './well-formed-json.ts';

/** A value that JSON.stringify writes as this text. TypeScript does not declare it yet. */
export const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => object };

/** The value with its whole numbers in float columns replaced by raw JSON; the same value if there are none. */
type Marker = (value: unknown) => unknown;

interface Schema {
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
}

/** A function that writes values of the schema as JSON. `indent` is the number of spaces per level. @default 0: one line */
export function encodeWithFloats<S extends object>(schema: S, { indent = 0 } = {}): (value: XStatic<S>) => string {
  const mark = markerOf(schema) ?? ((value: unknown) => value);
  return (value) => wellFormedJson(JSON.stringify(mark(value), null, indent));
}

/** Null for a schema without floats. */
function markerOf(schema: Schema): Marker | null {
  const types = [schema.type ?? []].flat();
  if (types.includes('number') && types.every((type) => type === 'number' || type === 'null')) return float;
  if (schema.items !== undefined) return listMarker(schema.items);
  if (schema.anyOf !== undefined) return choiceMarker(schema.anyOf);
  return objectMarker(schema);
}

function listMarker(items: Schema): Marker | null {
  const mark = markerOf(items);
  if (mark === null) return null;
  return (value) => {
    if (!Array.isArray(value)) return value;
    const given = value as readonly unknown[];
    let copy: unknown[] | null = null;
    for (let i = 0; i < given.length; i++) {
      const item = given[i];
      const marked = mark(item);
      if (marked !== item) (copy ??= given.slice())[i] = marked;
    }
    return copy ?? given;
  };
}

function objectMarker({ properties = {}, additionalProperties }: Schema): Marker | null {
  const own = new Map(Object.entries(properties).map(([key, schema]) => [key, markerOf(schema)]));
  const other = isObject(additionalProperties) ? markerOf(additionalProperties) : null;
  if (other === null && [...own.values()].every((mark) => mark === null)) return null;
  return (value) => {
    if (!isObject(value)) return value;
    let copy: Record<string, unknown> | null = null;
    for (const key of Object.keys(value)) {
      const mark = own.has(key) ? own.get(key)! : other;
      if (mark === null) continue;
      const marked = mark(value[key]);
      if (marked !== value[key]) (copy ??= { ...value })[key] = marked;
    }
    return copy ?? value;
  };
}

/** One choice may hold floats, for example next to null; this does not decide to which of several choices a value belongs. */
function choiceMarker(choices: readonly Schema[]): Marker | null {
  const marks = choices.map(markerOf).filter((mark) => mark !== null);
  if (marks.length > 1) throw new RangeError('A schema with several choices that hold floats cannot be written');
  return marks[0] ?? null;
}

const ZERO = rawJSON('0.0');
const ONE = rawJSON('1.0');

function float(value: unknown): unknown {
  if (!Number.isInteger(value)) return value;
  if (value === 0) return ZERO;
  if (value === 1) return ONE;
  const text = String(value);
  // From 1e21 up, JavaScript writes an exponent, which makes it a float already.
  return rawJSON(text.includes('e') ? text : `${text}.0`);
}
