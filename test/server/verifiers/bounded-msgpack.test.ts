import { decode, encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boundedMsgpack } from '../../../src/server/verifiers/bounded-msgpack.ts';

/** Values, map keys included. */
function countOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  if (Array.isArray(value)) return 1 + value.reduce<number>((sum, item) => sum + countOf(item), 0);
  return 1 + Object.values(value).reduce<number>((sum, item) => sum + 1 + countOf(item), 0);
}

function decodingProblem(bytes: Uint8Array): string {
  try {
    decode(bytes);
    return '';
  } catch (error) {
    return String(error);
  }
}

const problem = (bytes: readonly number[]) => boundedMsgpack(Uint8Array.from(bytes));

describe('boundedMsgpack', () => {
  it('counts {the values of whatever was encoded}', () => {
    const value = fc.jsonValue({ maxDepth: 20 }).filter((each) => !JSON.stringify(each).includes('"__proto__"'));
    fc.assert(
      fc.property(value, (each) => {
        expect(boundedMsgpack(encode(each))).toEqual({ values: countOf(each) });
      }),
    );
    const long = {
      text: 'x'.repeat(70_000),
      list: Array.from({ length: 70_000 }, (_, i) => i),
      bytes: new Uint8Array(300),
      float: 0.5,
      int: -(2 ** 40),
    };
    expect(boundedMsgpack(encode(long))).toEqual({ values: 70_000 + 11 });
  });

  it('refuses {every beginning} of a value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.nat(), (each, length) => {
        const bytes = encode(each);
        expect(boundedMsgpack(bytes.subarray(0, length % bytes.length))).toEqual({ problem: 'it ends too early' });
      }),
    );
  });

  it('either refuses {any bytes} or leaves them to a decoder that reads them to their end', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        // What is left to the decoder: keys of maps.
        fc.pre(!('problem' in boundedMsgpack(bytes)));
        expect(decodingProblem(bytes)).toMatch(/^$|key/);
      }),
      { numRuns: 2000 },
    );
  });

  it('refuses headers that announce more than can follow, deep nesting, many values, and types that JSON lacks', () => {
    expect(problem([0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0])).toEqual({ problem: 'it ends too early' });
    expect(problem([0xdf, 0xff, 0xff, 0xff, 0xff, 0xc0])).toEqual({ problem: 'it ends too early' });
    expect(problem(Array.from({ length: 64 }, () => 0x91).concat(0xc0))).toEqual({ problem: 'it nests lists and maps more than 64 levels deep' });
    expect(problem(Array.from({ length: 60 }, () => 0x91).concat(0xc0))).toEqual({ values: 61 });
    const many = new Uint8Array(5 + 1_000_000).fill(0xc0);
    many.set([0xdd, 0x00, 0x0f, 0x42, 0x40]);
    expect(boundedMsgpack(many)).toEqual({ problem: 'it has more than 1,000,000 values' });
    for (const ext of [0xc7, 0xd4, 0xd8, 0xc1])
      expect(problem([ext, 0, 0, 0])).toEqual({ problem: `it has a value of the type 0x${ext.toString(16)}, which JSON lacks` });
    expect(problem([0xc0, 0xc0])).toEqual({ problem: 'something follows its end' });
    expect(problem([])).toEqual({ problem: 'it ends too early' });
  });
});
