/**
 * Tells whether a decoder can safely take a MessagePack value. A header of five bytes may announce four billion items, for which the decoder makes room before it
 * reads them, so the structure is checked first, without making anything.
 */
import { countText } from '../../core/count-text.ts';
import { MOST_LEVELS } from '../../schemas/nesting.ts';

/** Far more than any request needs. */
const MOST_VALUES = 1_000_000;

export type BoundedMsgpack = { readonly values: number } | { readonly problem: string };

/** Returns the number of values, map keys included, or the fault. Linear in the bytes. */
export function boundedMsgpack(bytes: Uint8Array): BoundedMsgpack {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** Values that are still to come on each level. */
  const open: number[] = [1];
  let values = 0;
  let at = 0;
  while (open.length > 0) {
    const left = open.at(-1)!;
    if (left === 0) {
      open.pop();
      continue;
    }
    open[open.length - 1] = left - 1;
    if (at >= bytes.length) return { problem: 'it ends too early' };
    if (++values > MOST_VALUES) return { problem: `it has more than ${countText(MOST_VALUES)} values` };
    const head = headOf(view, at);
    if (typeof head === 'string') return { problem: head };
    at += head.size;
    // Every item takes a byte at least.
    if (at + head.items > bytes.length) return { problem: 'it ends too early' };
    if (head.items > 0 && open.push(head.items) > MOST_LEVELS) return { problem: `it nests lists and maps more than ${MOST_LEVELS} levels deep` };
  }
  return at === bytes.length ? { values } : { problem: 'something follows its end' };
}

interface Head {
  /** Bytes up to its first item, or to its end. */
  readonly size: number;
  readonly items: number;
}

/** Bytes that follow the first one, for values of a fixed size from nil to int 64. */
const FIXED: Readonly<Record<number, number>> = {
  0xc0: 0,
  0xc2: 0,
  0xc3: 0,
  0xca: 4,
  0xcb: 8,
  0xcc: 1,
  0xcd: 2,
  0xce: 4,
  0xcf: 8,
  0xd0: 1,
  0xd1: 2,
  0xd2: 4,
  0xd3: 8,
};
/** Bytes of the length of strings and bytes, and of the count of lists and maps. */
const LENGTH: Readonly<Record<number, number>> = { 0xc4: 1, 0xc5: 2, 0xc6: 4, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4 };

function headOf(view: DataView, at: number): Head | string {
  const byte = view.getUint8(at);
  if (byte <= 0x7f || byte >= 0xe0) return { size: 1, items: 0 };
  if (byte <= 0x8f) return { size: 1, items: 2 * (byte & 0x0f) };
  if (byte <= 0x9f) return { size: 1, items: byte & 0x0f };
  if (byte <= 0xbf) return { size: 1 + (byte & 0x1f), items: 0 };
  const fixed = FIXED[byte];
  if (fixed !== undefined) return { size: 1 + fixed, items: 0 };
  const width = LENGTH[byte];
  if (width === undefined) return `it has a value of the type 0x${byte.toString(16)}, which JSON lacks`;
  if (at + 1 + width > view.byteLength) return 'it ends too early';
  const length = width === 1 ? view.getUint8(at + 1) : width === 2 ? view.getUint16(at + 1) : view.getUint32(at + 1);
  if (byte >= 0xde) return { size: 1 + width, items: 2 * length };
  return byte >= 0xdc ? { size: 1 + width, items: length } : { size: 1 + width + length, items: 0 };
}
