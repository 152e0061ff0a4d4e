import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeFrame, encodeFrame, findFrame } from '../../src/execution/frames.ts';

const TOKEN = '12345678-1234-1234-1234-123456789abc';
const texts = (fields: readonly Uint8Array[] | null) => fields?.map((field) => Buffer.from(field).toString());

describe('decodeFrame', () => {
  it('reads what encodeFrame wrote { any well-formed texts }', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' })), (fields) => {
        expect(texts(decodeFrame(encodeFrame(fields)))).toEqual(fields);
      }),
    );
  });

  it('takes bytes that are not a frame for none { any bytes }', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const fields = decodeFrame(bytes);
        expect(fields === null || Buffer.from(encodeFrame(fields)).equals(bytes)).toBe(true);
      }),
    );
  });
});

describe('findFrame', () => {
  it('finds the reply among what a program wrote before and after it { any bytes }', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.array(fc.string()), fc.uint8Array(), (before, fields, after) => {
        const stream = Buffer.concat([before, encodeFrame([TOKEN, ...fields]), after]);
        expect(texts(decodeFrame(findFrame(stream, TOKEN)!))).toEqual([TOKEN, ...fields]);
      }),
    );
  });

  it('waits for the last byte', () => {
    const frame = encodeFrame([TOKEN, 'ran']);
    for (let length = 0; length < frame.length; length += 1) expect(findFrame(frame.subarray(0, length), TOKEN)).toBeNull();
    expect(findFrame(frame, TOKEN)).not.toBeNull();
  });
});
