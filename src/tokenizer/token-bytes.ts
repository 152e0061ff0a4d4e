/** A table from token ids to bytes in shared memory, so that threads can decode without a tokenizer of their own. */
import { sharedBuffer } from '../core/shared-buffer.ts';
import type { TokenSpelling } from './tokenizer-files.ts';
import type { TokenBytes } from './tokenizer-types.ts';

/**
 * The byte of each character in a byte-level vocabulary: printable Latin-1 characters stand for themselves, the other 68 bytes follow from U+0100 on in ascending order
 * (https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode).
 */
const BYTE_OF: ReadonlyMap<string, number> = new Map(byteAlphabet());

function byteAlphabet(): [string, number][] {
  let next = 0x100;
  const isPrintable = (byte: number) => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  return Array.from({ length: 256 }, (_, byte) => [String.fromCharCode(isPrintable(byte) ? byte : next++), byte]);
}

const UTF8 = new TextEncoder();
const BYTE_TOKEN = /^<0x([0-9A-F]{2})>$/;

/** A token of a vocabulary with byte fallback: one byte, or text with U+2581 for a space. */
function putText(spelling: string, bytes: Uint8Array, at: number): number {
  const byte = BYTE_TOKEN.exec(spelling);
  if (byte === null) return UTF8.encodeInto(spelling.replaceAll('\u2581', ' '), bytes.subarray(at)).written;
  bytes[at] = Number.parseInt(byte[1]!, 16);
  return 1;
}

/** Writes a token's bytes at `at` and returns their number. A spelling with a character outside the alphabet, as an added token may have, is written as UTF-8. */
function putBytes(spelling: string, bytes: Uint8Array, at: number): number {
  for (let i = 0; i < spelling.length; i++) {
    const byte = BYTE_OF.get(spelling[i]!);
    if (byte === undefined) return UTF8.encodeInto(spelling, bytes.subarray(at)).written;
    bytes[at + i] = byte;
  }
  return spelling.length;
}

/** `spellings[id]` is undefined for an id without a token, which gets no bytes. */
export function tokenBytes(spellings: readonly (string | undefined)[], specialIds: Iterable<number>, kind: TokenSpelling = 'byte-level'): TokenBytes {
  const put = kind === 'byte-level' ? putBytes : putText;
  // UTF-8 takes at most three bytes per UTF-16 unit.
  const room = new Uint8Array(spellings.reduce((sum, spelling) => sum + 3 * (spelling?.length ?? 0), 0));
  const starts = new Uint32Array(sharedBuffer(4 * (spellings.length + 1)));
  for (const [id, spelling] of spellings.entries()) starts[id + 1] = starts[id]! + put(spelling ?? '', room, starts[id]!);
  const used = room.subarray(0, starts[spellings.length]);
  const bytes = new Uint8Array(sharedBuffer(used.length));
  bytes.set(used);
  const special = new Uint8Array(sharedBuffer(spellings.length));
  for (const id of specialIds) special[id] = 1;
  return { bytes, starts, special };
}
