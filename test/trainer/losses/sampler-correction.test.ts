import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RatioSums } from '../../../src/trainer/losses/ratio-sums.ts';
import { correctionWeights, type SamplerCorrection } from '../../../src/trainer/losses/sampler-correction.ts';
import { anyBatch, batchOf, type FullBatch } from './loss-batches.ts';

const anyCorrection: fc.Arbitrary<SamplerCorrection> = fc.record({
  level: fc.constantFrom('token' as const, 'sequence' as const, 'geometric' as const),
  mode: fc.constantFrom('truncate' as const, 'mask' as const),
  min: fc.constantFrom(0, 0.5, 0.9),
  max: fc.constantFrom(1.1, 2),
});

/** The formula of the documentation, written for one number at a time. */
function plainWeights({ level, mode, min, max }: SamplerCorrection, logRatios: readonly number[]): number[] {
  const product = logRatios.map(Math.exp).reduce((all, ratio) => all * ratio, 1);
  return logRatios.map((logRatio) => {
    const ratio = { token: Math.exp(logRatio), sequence: product, geometric: product ** (1 / logRatios.length) }[level];
    if (ratio >= min && ratio <= max) return ratio;
    return mode === 'mask' ? 0 : Math.min(Math.max(ratio, min), max);
  });
}

function weightsOf(config: SamplerCorrection, batch: FullBatch) {
  const [weights, sums] = [new Float64Array(batch.logProbs.length), new RatioSums()];
  for (let i = 0; i < batch.offsets.length - 1; i++) {
    const [start, end] = [batch.offsets[i]!, batch.offsets[i + 1]!];
    if (start < end) correctionWeights(config, batch, { start, end }, weights, sums);
  }
  return { weights: [...weights], sums };
}

/** One sequence whose old log-probs are above the sampler's by these. */
const apart = (logRatios: readonly number[]): FullBatch => ({ ...batchOf([logRatios.map(() => 0)], 1), oldLogProbs: Float64Array.from(logRatios) });
const [LN2, LN4] = [Math.log(2), Math.log(4)];

describe('correctionWeights', () => {
  it('are those of a plain formula {any level, mode, bounds, batch}', () => {
    let outside = 0;
    fc.assert(
      fc.property(anyCorrection, anyBatch, (config, batch) => {
        const logRatios = [...batch.oldLogProbs].map((old, t) => old - batch.samplerLogProbs[t]!);
        const rows = [...batch.offsets.subarray(1)].map((end, i) => logRatios.slice(batch.offsets[i], end));
        const expected = rows.flatMap((row) => plainWeights(config, row));
        const { weights, sums } = weightsOf(config, batch);
        expect(weights).toEqual(expected.map((weight) => expect.closeTo(weight, 10)));
        expect(sums.correction).toBeCloseTo(
          expected.reduce((sum, weight) => sum + weight, 0),
          10,
        );
        expect(sums.mismatch).toBeCloseTo(-logRatios.reduce((sum, logRatio) => sum + logRatio, 0), 10);
        expect([sums.minCorrection, sums.maxCorrection]).toEqual([
          expect.closeTo(Math.min(...expected), 10),
          expect.closeTo(Math.max(...expected), 10),
        ]);
        outside += sums.outside;
      }),
      { numRuns: 200 },
    );
    expect(outside).toBeGreaterThan(200);
  });

  it.each([
    ['token', 'truncate', [0.5, 2, 2]],
    ['token', 'mask', [0, 2, 0]],
    ['sequence', 'truncate', [2, 2, 2]],
    ['sequence', 'mask', [0, 0, 0]],
    ['geometric', 'truncate', [1.5874, 1.5874, 1.5874]],
    ['geometric', 'mask', [1.5874, 1.5874, 1.5874]],
  ] as const)('bounds the ratios 1/4, 2, 8 within [0.5, 2] per %s, %s', (level, mode, expected) => {
    const { weights } = weightsOf({ level, mode, min: 0.5, max: 2 }, apart([-LN4, LN2, 3 * LN2]));
    expect(weights).toEqual(expected.map((weight) => expect.closeTo(weight, 4)));
  });

  it('counts a truncated ratio on the upper bound as TRL does; a masked one is kept', () => {
    const on = { level: 'token', min: 0, max: 1 } as const;
    const [truncated, masked] = (['truncate', 'mask'] as const).map((mode) => weightsOf({ ...on, mode }, apart([0, 0.1])));
    expect([truncated!.weights, truncated!.sums.outside]).toEqual([[1, 1], 2]);
    expect([masked!.weights, masked!.sums.outside]).toEqual([[1, 0], 1]);
  });

  it('does not hide a NaN, and bounds a product that overflows', () => {
    expect(weightsOf({ level: 'token', mode: 'mask', min: 0.5, max: 2 }, apart([NaN, 0])).weights).toEqual([NaN, 1]);
    expect(weightsOf({ level: 'sequence', mode: 'truncate', min: 0.5, max: 2 }, apart([500, 500])).weights).toEqual([2, 2]);
    expect(weightsOf({ level: 'sequence', mode: 'mask', min: 0.5, max: 2 }, apart([500, 500])).weights).toEqual([0, 0]);
  });
});
