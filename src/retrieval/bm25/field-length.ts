/**
 * A passage's length in terms, encoded in one byte as in Lucene (SmallFloat.intToByte4): exact up to 39, then with four significant bits.
 * Lengths with the same byte score alike, so rankings depend on this encoding.
 */

/** Four significant bits of a non-negative integer, monotone in it. */
function toSignificantBits(value: number): number {
  const shift = 28 - Math.clz32(value);
  return shift < 0 ? value : ((shift + 1) << 3) | ((value >>> shift) & 7);
}

/** Small lengths use the codes that a 32-bit integer's significant bits leave free. */
const exactLengths = 255 - toSignificantBits(0x7fffffff);

/** The byte, 0 to 255, for a length. */
export function encodeLength(length: number): number {
  return length < exactLengths ? length : exactLengths + toSignificantBits(length - exactLengths);
}

/** The length of a byte: the smallest that encodes to it. */
export function decodeLength(byte: number): number {
  if (byte < exactLengths) return byte;
  const code = byte - exactLengths;
  return exactLengths + (code < 8 ? code : ((code & 7) | 8) * 2 ** ((code >>> 3) - 1));
}
