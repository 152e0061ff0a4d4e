/**
 * Reads the header of a safetensors file: the tensors' types, shapes and byte ranges. The header's size is bounded before anything is allocated, and
 * every range is checked against the file's size, so that a truncated or hostile file gives a one-line error. Bytes that belong to no tensor are refused, as the
 * format's own readers refuse them.
 * Format: https://github.com/huggingface/safetensors (8 bytes of header length, a JSON header, the tensors' bytes).
 */
import { countText } from '../core/count-text.ts';
import { readJson } from '../core/read-json.ts';
import type { ByteFile } from './byte-source.ts';
import { isObject } from '../schemas/is-object.ts';

/** Bytes per element of the supported types. */
export const DTYPE_BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
export type TensorDtype = keyof typeof DTYPE_BYTES;

export interface TensorEntry {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly shape: readonly number[];
  /** First byte, from the start of the file. */
  readonly start: number;
  /** Offset after the last byte. */
  readonly end: number;
}

export interface SafetensorsHeader {
  /** In the order of their bytes, without overlaps; only tensors of types that are listed in `others` lie between them. */
  readonly tensors: readonly TensorEntry[];
  /** Types of tensors with an unsupported type, by name; empty if those are refused. */
  readonly others: ReadonlyMap<string, string>;
  /** Offset of the tensors' bytes. */
  readonly dataStart: number;
  /** Size of the whole file. */
  readonly fileBytes: number;
}

export interface SafetensorsOptions {
  /** A 4B model's adapter has a header of 70 kB; the format allows 100 MB. @default 8 MiB */
  readonly maxHeaderBytes?: number;
  /** The treatment of tensors of types that are not in `DTYPE_BYTES`. @default refuse */
  readonly otherTypes?: 'refuse' | 'list';
}

const MAX_HEADER_BYTES = 8 * 2 ** 20;
/** Keeps a byte order mark, with which the text is not JSON. */
const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** The fault of a file, as a clause for a sentence that names the file. */
export class SafetensorsError extends Error {
  override readonly name = 'SafetensorsError';
}

/** Fills `bytes` from the file, beginning at `start`. Throws SafetensorsError if the file is shorter than its header says, or the system's error. */
export async function readTensorBytes(file: ByteFile, bytes: Uint8Array, start: number): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, start + at);
    if (bytesRead === 0)
      throw new SafetensorsError(`only ${at} of ${bytes.length} bytes could be read at offset ${start}; the file may have changed while it was read`);
    at += bytesRead;
  }
}

/** Throws SafetensorsError, or the system's error. */
export async function readSafetensorsHeader(
  file: ByteFile,
  { maxHeaderBytes = MAX_HEADER_BYTES, otherTypes }: SafetensorsOptions = {},
): Promise<SafetensorsHeader> {
  const { size: fileBytes } = await file.stat();
  const prefix = new Uint8Array(8);
  if (fileBytes < prefix.length || (await file.read(prefix, 0, 8, 0)).bytesRead < 8) {
    throw new SafetensorsError(`it has only ${fileBytes} bytes`);
  }
  const headerBytes = Number(new DataView(prefix.buffer).getBigUint64(0, true));
  const dataStart = 8 + headerBytes;
  if (headerBytes > maxHeaderBytes) throw new SafetensorsError(`its header has ${headerBytes} bytes, the limit is ${maxHeaderBytes}`);
  if (dataStart > fileBytes) throw new SafetensorsError(`its header should have ${headerBytes} bytes, but the whole file has only ${fileBytes}`);
  const bytes = new Uint8Array(headerBytes);
  const { bytesRead } = await file.read(bytes, 0, headerBytes, 8);
  if (bytesRead < headerBytes) throw new SafetensorsError(`only ${bytesRead} of ${headerBytes} bytes of its header could be read`);
  const entries = parseEntries(UTF8.decode(bytes));
  const others = otherTypes === 'list' ? typesOfOthers(entries) : new Map<string, string>();
  const wanted = entries.filter(([name]) => !others.has(name));
  const tensors = tensorEntries(wanted, dataStart, fileBytes);
  assertCovered(entries, fileBytes - dataStart);
  return { tensors, others, dataStart, fileBytes };
}

function parseEntries(json: string): [string, unknown][] {
  let value: unknown;
  try {
    value = readJson(json);
  } catch (cause) {
    throw new SafetensorsError('its header is not JSON', { cause });
  }
  if (!isObject(value)) throw new SafetensorsError('its header is not a JSON object');
  return Object.entries(value).filter(([name]) => name !== '__metadata__');
}

function typesOfOthers(entries: readonly [string, unknown][]): ReadonlyMap<string, string> {
  const types = entries.map(([name, about]) => [name, isObject(about) ? about['dtype'] : null] as const);
  return new Map(types.filter((entry): entry is [string, string] => typeof entry[1] === 'string' && !Object.hasOwn(DTYPE_BYTES, entry[1])));
}

function tensorEntries(entries: readonly [string, unknown][], dataStart: number, fileBytes: number): TensorEntry[] {
  const tensors = entries.map(([name, about]) => tensorEntry(name, about, dataStart, fileBytes));
  return tensors.toSorted((a, b) => a.start - b.start || a.end - b.end);
}

/** Each byte after the header belongs to one tensor. */
function assertCovered(entries: readonly [string, unknown][], bytes: number): void {
  const ranges = entries.map(([name, about]) => {
    const [begin, end] = rangeOf(name, isObject(about) ? about['data_offsets'] : null);
    return { name, begin, end };
  });
  let [at, last] = [0, ''];
  for (const { name, begin, end } of ranges.toSorted((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (begin !== at) throw new SafetensorsError(begin < at ? `the bytes of ${last} and ${name} overlap` : strayText(begin - at, name));
    [at, last] = [end, name];
  }
  if (at < bytes) throw new SafetensorsError(strayText(bytes - at, null));
  if (at > bytes) throw new SafetensorsError(`its tensors end ${countText(at - bytes)} bytes past the end of the file; the file is truncated`);
}

function strayText(bytes: number, next: string | null): string {
  const count = bytes === 1 ? '1 byte' : `${countText(bytes)} bytes`;
  return `${count} ${next === null ? 'after its last tensor' : `before ${next}`} ${bytes === 1 ? 'belongs' : 'belong'} to no tensor; save the file again`;
}

function rangeOf(name: string, offsets: unknown): readonly [begin: number, end: number] {
  if (isSizes(offsets) && offsets.length === 2 && offsets[1]! >= offsets[0]!) return [offsets[0]!, offsets[1]!];
  throw new SafetensorsError(`${name} must have two data_offsets, got ${JSON.stringify(offsets)}`);
}

function tensorEntry(name: string, about: unknown, dataStart: number, fileBytes: number): TensorEntry {
  if (!isObject(about)) throw new SafetensorsError(`the entry of ${name} is not an object with dtype, shape and data_offsets`);
  const { dtype, shape, data_offsets: offsets } = about;
  if (typeof dtype !== 'string' || !Object.hasOwn(DTYPE_BYTES, dtype)) {
    throw new SafetensorsError(`the dtype of ${name} must be ${Object.keys(DTYPE_BYTES).join(', ')}, got ${JSON.stringify(dtype)}`);
  }
  if (!isSizes(shape)) throw new SafetensorsError(`the shape of ${name} must be whole numbers, got ${JSON.stringify(shape)}`);
  const [begin, end] = rangeOf(name, offsets).map((at) => at + dataStart) as [number, number];
  const bytes = shape.reduce((product, size) => product * size, DTYPE_BYTES[dtype as TensorDtype]);
  if (end - begin !== bytes) throw new SafetensorsError(`${name} must have ${bytes} bytes, got ${end - begin}`);
  if (end > fileBytes) throw new SafetensorsError(`${name} ends at byte ${end}, but the file has only ${fileBytes} bytes; the file is truncated`);
  return { name, dtype: dtype as TensorDtype, shape, start: begin, end };
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 8 && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

/** Length and header for float32 tensors whose bytes follow in this order, padded with spaces to a multiple of 8 as the format's own writer does. */
export function safetensorsHeader(tensors: readonly { readonly name: string; readonly shape: readonly number[] }[]): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let end = 0;
  for (const { name, shape } of tensors) {
    const start = end;
    end += shape.reduce((product, size) => product * size, DTYPE_BYTES.F32);
    header[name] = { dtype: 'F32', shape, data_offsets: [start, end] };
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + Math.ceil(json.length / 8) * 8).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(bytes.length - 8), true);
  bytes.set(json, 8);
  return bytes;
}
