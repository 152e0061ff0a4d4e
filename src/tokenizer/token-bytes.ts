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

/** Bytes of a token of this spelling, from `at` on. One that holds a character from outside the alphabet, as an added token may, stands for itself in UTF-8. */
function putBytes(spelling: string, bytes: Uint8Array, at: number): number {
  for (let i = 0; i < spelling.length; i++) {
    const byte = BYTE_OF.get(spelling[i]!);
    if (byte === undefined) return Buffer.from(bytes.buffer, at).write(spelling, 'utf8');
    bytes[at + i] = byte;
  }
  return spelling.length;
}

/** `spellings[id]` is undefined where the id has no token: it has no bytes either. */
export function tokenBytes(spellings: readonly (string | undefined)[], specialIds: Iterable<number>): TokenBytes {
  // In UTF-8 a character takes at most three bytes for each of its units.
  const room = new Uint8Array(spellings.reduce((sum, spelling) => sum + 3 * (spelling?.length ?? 0), 0));
  const starts = new Uint32Array(new SharedArrayBuffer(4 * (spellings.length + 1)));
  for (const [id, spelling] of spellings.entries()) starts[id + 1] = starts[id]! + putBytes(spelling ?? '', room, starts[id]!);
  const used = room.subarray(0, starts[spellings.length]);
  const bytes = new Uint8Array(new SharedArrayBuffer(used.length));
  bytes.set(used);
  const special = new Uint8Array(new SharedArrayBuffer(spellings.length));
  for (const id of specialIds) special[id] = 1;
  return { bytes, starts, special };
}
