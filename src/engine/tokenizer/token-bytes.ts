/** The table from token ids to bytes, in shared memory so that every thread turns ids into text without a tokenizer of its own. */
import type { TokenBytes } from './tokenizer-types.ts';

/**
 * The byte that each character of a byte-level vocabulary stands for: printable Latin-1 stands for itself, the other 68 bytes follow from U+0100 on, in ascending order
 * (https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode).
 */
const BYTE_OF: ReadonlyMap<string, number> = new Map(byteAlphabet());

function byteAlphabet(): [string, number][] {
  let next = 0x100;
  const isPrintable = (byte: number) => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  return Array.from({ length: 256 }, (_, byte) => [String.fromCharCode(isPrintable(byte) ? byte : next++), byte]);
}

/** What a token of this spelling stands for. One that holds a character from outside the alphabet, as an added token may, stands for itself in UTF-8. */
export function bytesOfSpelling(spelling: string): Uint8Array {
  const bytes = new Uint8Array(spelling.length);
  for (let i = 0; i < spelling.length; i++) {
    const byte = BYTE_OF.get(spelling[i]!);
    if (byte === undefined) return Buffer.from(spelling, 'utf8');
    bytes[i] = byte;
  }
  return bytes;
}

/** `spellings[id]` is undefined where the id has no token: it has no bytes either. */
export function tokenBytes(spellings: readonly (string | undefined)[], specialIds: Iterable<number>): TokenBytes {
  const parts = Array.from(spellings, (spelling) => bytesOfSpelling(spelling ?? ''));
  const bytes = new Uint8Array(new SharedArrayBuffer(parts.reduce((sum, part) => sum + part.length, 0)));
  const starts = new Uint32Array(new SharedArrayBuffer(4 * (parts.length + 1)));
  const special = new Uint8Array(new SharedArrayBuffer(parts.length));
  for (let id = 0; id < parts.length; id++) {
    bytes.set(parts[id]!, starts[id]);
    starts[id + 1] = starts[id]! + parts[id]!.length;
  }
  for (const id of specialIds) special[id] = 1;
  return { bytes, starts, special };
}
