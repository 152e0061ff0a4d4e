import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { JsonBounds, jsonExcess, REQUEST_LIMITS } from '../../src/core/json-bounds.ts';

const small = { maxParts: 10, maxValues: 20 };
const taken = (text: string, isLines = false) => new JsonBounds(small, isLines).take(Buffer.from(text));

describe('JsonBounds', () => {
  test('counts lists, objects, keys, values and levels', () => {
    expect(taken(`[${'[],'.repeat(8)}[]]`)).toBeNull();
    expect(taken(`[${'[],'.repeat(9)}[]]`)).toBe('has more than 10 lists, objects and keys');
    expect(taken('{"a":{"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0}}')).toBe('has more than 10 lists, objects and keys');
    expect(taken(`[${'1,'.repeat(20)}1]`)).toBeNull();
    expect(taken(`[${'1,'.repeat(21)}1]`)).toBe('has more than 20 values');
    expect(jsonExcess(`${'[{"a":'.repeat(32)}1${'}]'.repeat(32)}`)).toBeNull();
    expect(jsonExcess('['.repeat(65))).toBe('nests lists and objects more than 64 levels deep');
  });

  test('counts nothing inside strings, wherever the bytes are cut', () => {
    const text = Buffer.from(`["\\\\", "\\"${'[{:,é'.repeat(100)}\\\\\\"", 1]`);
    for (let cut = 0; cut < text.length; cut++) {
      const bounds = new JsonBounds(small);
      expect([bounds.take(text.subarray(0, cut)), bounds.take(text.subarray(cut))]).toEqual([null, null]);
    }
    expect(taken(`["\\\\", ${'['.repeat(65)}`)).toBe('nests lists and objects more than 64 levels deep');
  });

  test('counts the same as byte by byte, whatever stands in strings and wherever the bytes are cut {text, cut}', () => {
    const piece = fc.constantFrom('"', '\\', '\\"', '\\\\', '[', ']', '{', '}', ',', ':', 'a'.repeat(40), '[x]'.repeat(20), 'é');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), fc.nat(2000), (pieces, at) => {
        const text = Buffer.from(pieces.join(''));
        // The bytes of a stream are looked at one by one.
        const outcome = (bounds: JsonBounds, cut: number) => bounds.take(text.subarray(0, cut)) ?? bounds.take(text.subarray(cut));
        expect(outcome(new JsonBounds(small), at)).toBe(outcome(new JsonBounds(small, true), text.length));
      }),
      { numRuns: 500 },
    );
  });

  test('bounds the keys of one object, not those of many', () => {
    const keys = (count: number) => `{${Array.from({ length: count }, (_, i) => `"${i}":0`).join(',')}}`;
    expect(jsonExcess(keys(65_536))).toBeNull();
    expect(jsonExcess(`[${keys(40_000)},${keys(40_000)}]`)).toBeNull();
    expect(jsonExcess(`[${keys(65_537)}]`)).toBe('has an object of more than 65,536 keys');
  });

  test('counts each line for itself in a stream', () => {
    expect(taken('data: ["a\n'.repeat(100), true)).toBeNull();
    expect(taken(`data: x\ndata: ${'['.repeat(65)}`, true)).toBe('nests lists and objects more than 64 levels deep');
  });

  test('lets samples of 100,000 tokens with their log-probabilities and a long conversation pass', () => {
    const ids = Array.from({ length: 100_000 }, (_, i) => i);
    const sample = { episode_id: 'a', turn: 0, token_ids: ids, logprobs: ids.map((id) => -1 / (id + 1)), finish_reason: 'stop' };
    expect(jsonExcess(JSON.stringify({ episodes: [sample, sample, sample] }))).toBeNull();
    expect(jsonExcess(JSON.stringify({ messages: ids.map((id) => ({ role: 'user', content: `[${id}` })) }))).toBeNull();
    // The tokens of 1,024 samples of 4,096 tokens are as many values as a request may have.
    expect(REQUEST_LIMITS.maxValues).toBe(2 * 1024 * 4096);
  });
});
