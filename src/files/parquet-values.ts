/**
 * Values of Parquet columns as plain JSON that keeps their digits: decimals as their text, 32-bit floats by their shortest digits, dates, times and timestamps in
 * ISO 8601. hyparquet makes doubles of decimals (57 hundredths are 0.5700000000000001), dates with a time of midnight, and integers of times.
 */
import { isUtf8 } from 'node:buffer';
import type { SchemaElement, SchemaTree } from 'hyparquet';
import { readExactJson } from '../core/read-json.ts';
import { isObject } from '../schemas/is-object.ts';

type Decode = (value: unknown) => unknown;

/** Parsers for hyparquet. A timestamp at midnight is its date: tables often have no other type for dates. Texts that are not UTF-8 stay bytes. */
export const PARSERS = {
  stringFromBytes: (bytes: Uint8Array | undefined) => (bytes !== undefined && isUtf8(bytes) ? Buffer.from(bytes).toString('utf8') : bytes),
  jsonFromBytes: (bytes: Uint8Array | undefined) => bytes && readExactJson(Buffer.from(bytes).toString('utf8')),
  dateFromDays: (days: number) => new Date(days * 86_400_000).toISOString().slice(0, 10),
  timestampFromMilliseconds: (millis: bigint) => timestamp(millis * 1_000_000n),
  timestampFromMicroseconds: (micros: bigint) => timestamp(micros * 1000n),
  timestampFromNanoseconds: (nanos: bigint) => timestamp(nanos),
};

/** Decodes the rows of a file; keeps hyparquet from making doubles of its decimals, so call it before reading. */
export function rowDecoder(root: SchemaTree): (row: Readonly<Record<string, unknown>>) => Readonly<Record<string, unknown>> {
  const columns = new Map(root.children.map((node) => [node.element.name, decoderOf(node)]));
  return (row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, (columns.get(name) ?? plain)(value) ?? null]));
}

function decoderOf(node: SchemaTree): Decode {
  const { element, children } = node;
  if (children.length === 0) return leafDecoder(element);
  const [only] = children;
  const inner = children.length === 1 && only!.element.repetition_type === 'REPEATED' ? only!.children : [];
  // A list in a group of its own, a map, or the fields of a struct.
  if (inner.length === 1) return decoderOf(inner[0]!);
  if (inner.length === 2) {
    const valueOf = decoderOf(inner[1]!);
    const decode: Decode = (value) => (Array.isArray(value) ? value.map(decode) : isObject(value) ? mapped(value, () => valueOf) : plain(value));
    return element.converted_type === 'MAP' || element.logical_type?.type === 'MAP' ? decode : decoderOf(only!);
  }
  const fields = new Map(children.map((child) => [child.element.name, decoderOf(child)]));
  const decode: Decode = (value) =>
    Array.isArray(value) ? value.map(decode) : isObject(value) ? mapped(value, (name) => fields.get(name) ?? plain) : plain(value);
  return children.length === 1 && only!.element.repetition_type === 'REPEATED' ? decoderOf(only!) : decode;
}

function mapped(value: Readonly<Record<string, unknown>>, decoderFor: (name: string) => Decode): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, decoderFor(name)(each)]));
}

function leafDecoder(element: SchemaElement): Decode {
  const one = valueDecoder(element);
  const decode: Decode = (value) => (Array.isArray(value) ? value.map(decode) : value === null || value === undefined ? null : one(value));
  return decode;
}

function valueDecoder(element: SchemaElement): Decode {
  const { converted_type: converted, logical_type: logical, scale = 0, type } = element;
  if (converted === 'DECIMAL' || logical?.type === 'DECIMAL') {
    delete element.converted_type;
    return (value) => decimal(value, scale);
  }
  if (converted === 'TIME_MILLIS') return (value) => clock(BigInt(value as number | bigint) * 1_000_000n);
  if (converted === 'TIME_MICROS') return (value) => clock(BigInt(value as number | bigint) * 1000n);
  if (logical?.type === 'TIME')
    return (value) => clock(BigInt(value as number | bigint) * (logical.unit === 'NANOS' ? 1n : logical.unit === 'MICROS' ? 1000n : 1_000_000n));
  return type === 'FLOAT' ? (value) => (typeof value === 'number' ? shortest(value) : plain(value)) : plain;
}

/** A value without a column of its own. Bytes that are not UTF-8 are not text, and become their number. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Uint8Array) return isUtf8(value) ? Buffer.from(value).toString('utf8') : { bytes: value.length };
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(plain);
  return isObject(value) ? mapped(value, () => plain) : value;
}

/** The number of a 32-bit float that Python prints for it: 0.1, not 0.10000000149011612. */
function shortest(value: number): number {
  for (let digits = 1; digits < 10; digits++) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return rounded;
  }
  return value;
}

/** `12.30` for 1230 hundredths. */
function decimal(value: unknown, scale: number): string {
  const unscaled =
    value instanceof Uint8Array ? BigInt.asIntN(value.length * 8, BigInt(`0x${Buffer.from(value).toString('hex') || '0'}`)) : BigInt(value as number);
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  const sign = unscaled < 0n ? '-' : '';
  return scale === 0 ? `${sign}${digits}` : `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

const DAY = 86_400_000_000_000n;

function timestamp(nanos: bigint): string {
  const ofDay = ((nanos % DAY) + DAY) % DAY;
  const date = new Date(Number((nanos - ofDay) / 1_000_000n)).toISOString().slice(0, 10);
  return ofDay === 0n ? date : `${date}T${clock(ofDay)}Z`;
}

/** The time of a day, with the fraction of a second that it has. */
function clock(nanos: bigint): string {
  const time = new Date(Number(nanos / 1_000_000n)).toISOString().slice(11, 19);
  const fraction = String(nanos % 1_000_000_000n)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return fraction === '' ? time : `${time}.${fraction}`;
}
