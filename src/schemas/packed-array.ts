/** Arrays of numbers in JSON, compact and bit-exact: base64 of their little-endian bytes. */
import { endianness } from 'node:os';

export function packArray(array: Int32Array | Float64Array): string {
  return littleEndian(Buffer.from(array.buffer, array.byteOffset, array.byteLength), array.BYTES_PER_ELEMENT).toString('base64');
}

/** Null if the text is not base64 or its bytes are not a whole number of elements. */
export function unpackInt32(text: string): Int32Array | null {
  const bytes = bytesOf(text, Int32Array.BYTES_PER_ELEMENT);
  return bytes && new Int32Array(bytes);
}

/** Null if the text is not base64 or its bytes are not a whole number of elements. */
export function unpackFloat64(text: string): Float64Array | null {
  const bytes = bytesOf(text, Float64Array.BYTES_PER_ELEMENT);
  return bytes && new Float64Array(bytes);
}

function bytesOf(text: string, size: number): ArrayBuffer | null {
  const bytes = Buffer.from(text, 'base64');
  // The decoder skips characters that are not base64, so invalid text comes out too short.
  if (Math.ceil(bytes.length / 3) * 4 !== text.length || bytes.length % size !== 0) return null;
  // Copied, because the decoder's buffer may start at any byte of a shared one.
  return new Uint8Array(littleEndian(bytes, size)).buffer;
}

/** Returns the bytes themselves on little-endian machines, a swapped copy on others. */
function littleEndian(bytes: Buffer, size: number): Buffer {
  if (endianness() === 'LE') return bytes;
  return size === 4 ? Buffer.from(bytes).swap32() : Buffer.from(bytes).swap64();
}
