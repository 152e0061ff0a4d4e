/** Files as a bad disk, a broken download or a hostile hand leaves them. */
import fc from 'fast-check';
import { EngineInputError } from '../../../src/engine/engine-errors.ts';

export interface Damage {
  readonly at: number;
  readonly kind: 'flip' | 'cut' | 'insert' | 'overwrite';
  readonly bytes: Uint8Array;
}

/** Near the start, where the header and all of a JSON file are; or anywhere. */
export const damage: fc.Arbitrary<Damage> = fc.record({
  at: fc.oneof(fc.double({ min: 0, max: 0.02, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true })),
  kind: fc.constantFrom('flip', 'cut', 'insert', 'overwrite'),
  bytes: fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 4 }),
    fc.constantFrom('-1', '1e9', '"x"', '[]', '{', '9', 'null', ',').map((text) => Buffer.from(text)),
  ),
});

/** A file with one thing done to it. */
export function damaged(content: Buffer, { at, kind, bytes }: Damage): Buffer {
  const place = Math.floor(at * content.length);
  const [before, rest] = [content.subarray(0, place), content.subarray(place)];
  if (kind === 'cut') return before;
  if (kind === 'insert') return Buffer.concat([before, bytes, rest]);
  if (kind === 'overwrite') return Buffer.concat([before, bytes, rest.subarray(bytes.length)]);
  const flipped = Buffer.from(content);
  if (place < flipped.length) flipped[place]! ^= 1 << (bytes[0]! % 8);
  return flipped;
}

/** Null for the one kind of error that may come out; throws any other. */
export const nullIfRefused = (error: unknown): null => {
  if (!(error instanceof EngineInputError) || error.message.includes('\n')) throw error;
  return null;
};
