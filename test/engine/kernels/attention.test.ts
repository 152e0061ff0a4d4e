import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyShape, AttentionCase, referenceAttention } from './attention-case.ts';
import { anySeed, bitsOf, BUILDS, distance, KernelBench } from './kernel-bench.ts';

describe.each(BUILDS)('attention (%s)', (build) => {
  const bench = new KernelBench(build);
  const caseOf = (...args: ConstructorParameters<typeof AttentionCase> extends [KernelBench, ...infer R] ? R : never) =>
    new AttentionCase(bench.clear(), ...args);

  it('is softmax(q k) v over the positions so far, with the log of the sum', () => {
    fc.assert(
      fc.property(anySeed, anyShape(70), fc.nat(), (seed, shape, cut) => {
        const past = cut % shape.length;
        const whole = caseOf(seed, shape);
        whole.write(0, past);
        whole.write(past, shape.length);
        const { out, statistics } = whole.attend(past, shape.length);
        const wanted = referenceAttention(whole.inputs, shape, past);
        expect(distance(out, wanted.out)).toBeLessThan(1e-5);
        expect(distance(statistics, wanted.statistics)).toBeLessThan(1e-5);
      }),
      { numRuns: 25 },
    );
  });

  it('gives a position the same bits whether it is computed alone, in chunks, or with all others', () => {
    fc.assert(
      fc.property(anySeed, anyShape(150), fc.array(fc.nat(), { maxLength: 4 }), (seed, shape, cuts) => {
        const { length } = shape;
        const whole = caseOf(seed, shape);
        whole.write(0, length);
        const at = whole.attend(0, length);
        const ends = [...new Set([...cuts.map((cut) => 1 + (cut % length)), length])].toSorted((a, b) => a - b);
        // Only what has come so far is in the cache, in other blocks than before.
        const chunked = caseOf(seed, { ...shape, firstBlock: shape.firstBlock + 3 });
        const chunks = ends.map((end, i) => {
          chunked.write(ends[i - 1] ?? 0, end);
          return chunked.attend(ends[i - 1] ?? 0, end);
        });
        expect(chunks.flatMap((chunk) => bitsOf(chunk.out))).toEqual(bitsOf(at.out));
        expect(chunks.flatMap((chunk) => bitsOf(chunk.statistics))).toEqual(bitsOf(at.statistics));
        const position = seed % length;
        const width = at.out.length / length;
        expect(bitsOf(whole.attend(position, position + 1).out)).toEqual(bitsOf(at.out.subarray(position * width, (position + 1) * width)));
      }),
      { numRuns: 25 },
    );
  });

  it('lets a NaN in a key or value reach every later position and no earlier one', () => {
    fc.assert(
      fc.property(anySeed, anyShape(60), fc.boolean(), fc.nat(), (seed, shape, inKey, where) => {
        const { length, heads, kvHeads, d } = shape;
        const clean = caseOf(seed, shape);
        clean.write(0, length);
        const before = clean.attend(0, length).out;
        const position = where % length;
        const poisoned = caseOf(seed, shape);
        (inKey ? poisoned.inputs.k : poisoned.inputs.v)[position * kvHeads * d + (where % (kvHeads * d))] = Number.NaN;
        poisoned.write(0, length);
        const after = poisoned.attend(0, length).out;
        const width = heads * d;
        expect(bitsOf(after.subarray(0, position * width))).toEqual(bitsOf(before.subarray(0, position * width)));
        for (let row = position; row < length; row++) expect(after.subarray(row * width, (row + 1) * width).some(Number.isNaN)).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  it('survives scores far beyond what exp can take', () => {
    const shape = { length: 20, heads: 4, kvHeads: 2, d: 16, firstBlock: 0 };
    const large = caseOf(5, shape);
    large.inputs.q.forEach((v, i) => (large.inputs.q[i] = v * 300));
    large.write(0, 20);
    const wanted = referenceAttention(large.inputs, shape, 0);
    const { out, statistics } = large.attend(0, 20);
    expect(distance(out, wanted.out)).toBeLessThan(1e-3);
    expect(distance(statistics, wanted.statistics)).toBeLessThan(1e-5);
  });

  it('does nothing for no rows', () => {
    const none = caseOf(1, { length: 20, heads: 4, kvHeads: 2, d: 16, firstBlock: 0 });
    none.write(7, 7);
    expect([none.block(0), none.block(1)].every((block) => block.every(Number.isNaN))).toBe(true);
    expect(none.attend(7, 7).out).toHaveLength(0);
  });

  it('writes keys and values where the layout of a block says', () => {
    const shape = { length: 37, heads: 2, kvHeads: 2, d: 16, firstBlock: 2 };
    const { length, kvHeads, d } = shape;
    const written = caseOf(1, shape);
    written.write(0, 5);
    written.write(5, length);
    for (let position = 0; position < length; position++) {
      const block = written.block(Math.floor(position / 16));
      const slot = position % 16;
      for (let head = 0; head < kvHeads; head++) {
        for (let i = 0; i < d; i++) {
          const at = (position * kvHeads + head) * d + i;
          expect(block[head * d * 16 + Math.floor(slot / 8) * d * 8 + i * 8 + (slot % 8)]).toBe(written.inputs.k[at]);
          expect(block[(kvHeads + head) * d * 16 + Math.floor(i / 8) * 128 + slot * 8 + (i % 8)]).toBe(written.inputs.v[at]);
        }
      }
    }
    expect(written.block(2).filter(Number.isNaN)).toHaveLength(11 * 2 * kvHeads * d);
  });
});
