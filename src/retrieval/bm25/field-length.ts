/**
 * A passage's length in terms, held in one byte as Lucene does (SmallFloat.intToByte4): exact to 39, then with four significant bits. Two
 * passages whose lengths share a byte score alike, so rankings depend on it.
 */

/** Four significant bits of a non-negative integer, monotone in it. */
function toSignificantBits(value: number): number {
  const shift = 28 - Math.clz32(value);
  return shift < 0 ? value : ((shift + 1) << 3) | ((value >>> shift) & 7);
}

/** Small lengths get the codes that a 32-bit integer's significant bits leave free. */
const exactLengths = 255 - toSignificantBits(0x7fffffff);

/** The byte, 0 to 255, for a length. */
export function encodeLength(length: number): number {
  return length < exactLengths ? length : exactLengths + toSignificantBits(length - exactLengths);
}

/** The length that a byte stands for: the smallest that encodes to it. */
export function decodeLength(byte: number): number {
  if (byte < exactLengths) return byte;
  const code = byte - exactLengths;
  return exactLengths + (code < 8 ? code : ((code & 7) | 8) * 2 ** ((code >>> 3) - 1));
}
