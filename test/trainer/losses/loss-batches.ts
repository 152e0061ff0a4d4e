/** Random ragged batches and configurations of the policy loss, and what the tests do with them. */
import fc from 'fast-check';
import type { Aggregation } from '../../../src/trainer/losses/aggregation.ts';
import type { KlConfig } from '../../../src/trainer/losses/kl.ts';
import { broadcastOverTokens } from '../../../src/trainer/losses/token-mask.ts';
import type { LossBatch, Objective, PolicyLossConfig } from '../../../src/trainer/losses/policy-loss.ts';

/** A batch with everything a configuration may ask for. */
export type FullBatch = Required<LossBatch>;

/** The arrays of a batch that have one entry per token. */
export const COLUMNS = ['logProbs', 'oldLogProbs', 'advantages', 'referenceLogProbs', 'samplerLogProbs'] as const;

// Even steps: fc.double favours 0 and the smallest numbers, where most formulas are alike.
const logProb = fc.integer({ min: -6000, max: -10 }).map((n) => n / 1000);
const shift = fc.integer({ min: -1000, max: 1000 }).map((n) => n / 997);
const token = fc.record({ mask: fc.constantFrom(0, 1, 1), logProb, old: shift, reference: shift, sampler: shift });
const sequence = fc.record({ tokens: fc.array(token, { maxLength: 8 }), advantage: fc.integer({ min: -20, max: 20 }).map((n) => n / 10) });

export const anyBatch: fc.Arbitrary<FullBatch> = fc.array(sequence, { minLength: 1, maxLength: 5 }).map((sequences) => {
  const tokens = sequences.flatMap((s) => s.tokens);
  const column = (value: (t: (typeof tokens)[number]) => number) => Float64Array.from(tokens, value);
  const offsets = Int32Array.from(sequences.reduce((ends, s) => [...ends, ends.at(-1)! + s.tokens.length], [0]));
  return {
    offsets,
    mask: Uint8Array.from(tokens, (t) => t.mask),
    logProbs: column((t) => t.logProb),
    oldLogProbs: column((t) => t.logProb + t.old),
    advantages: broadcastOverTokens(
      sequences.map((s) => s.advantage),
      offsets,
    ),
    referenceLogProbs: column((t) => t.logProb + t.reference),
    samplerLogProbs: column((t) => t.logProb + t.old + t.sampler),
  };
});

export const anyAggregation: fc.Arbitrary<Aggregation> = fc.oneof(
  fc.constantFrom<Aggregation>({ kind: 'sum' }, { kind: 'token_mean' }, { kind: 'constant', maxTokens: 16 }),
  fc.record({ kind: fc.constant('sequence_mean' as const), within: fc.constantFrom('mean' as const, 'sum' as const), countEmpty: fc.boolean() }),
);

const smoothObjective = fc.constantFrom<Objective>(
  { kind: 'clip', clipLow: 0.2, clipHigh: 0.2, dualClip: null },
  { kind: 'clip', clipLow: 0.2, clipHigh: 0.28, dualClip: 1.5 },
  { kind: 'importance_sampling' },
);
const anyKl: fc.Arbitrary<KlConfig> = fc.record({
  estimator: fc.constantFrom('k1' as const, 'abs' as const, 'k2' as const, 'k3' as const),
  coefficient: fc.constantFrom(0.001, 0.5),
  clamp: fc.constantFrom<[number, number] | null>(null, [-0.4, 0.4]),
  against: fc.constantFrom('reference' as const, 'old' as const),
});

/** Configurations whose loss is the function that its gradient derives: no weight that is held constant. */
export const differentiableConfig: fc.Arbitrary<PolicyLossConfig> = fc.record({
  ratio: fc.constantFrom('token' as const, 'sequence' as const),
  objective: smoothObjective,
  logRatioClamp: fc.constantFrom(null, 0.5),
  correction: fc.oneof(fc.constant(null), fc.record({ level: fc.constantFrom('token' as const, 'sequence' as const), cap: fc.constant(2) })),
  aggregation: anyAggregation,
  kl: fc.option(anyKl, { nil: null }),
});

/** CISPO included. */
export const anyConfig: fc.Arbitrary<PolicyLossConfig> = fc
  .tuple(differentiableConfig, fc.option(fc.constant<Objective>({ kind: 'cispo', ratioMin: 0.8, ratioMax: 1.28 }), { nil: null }))
  .map(([config, objective]) => ({ ...config, ...(objective && { objective }) }));

/** Sequences [from, to) of a batch. */
export function sliceSequences(batch: FullBatch, from: number, to: number): FullBatch {
  const [start, end] = [batch.offsets[from]!, batch.offsets[to]!];
  const columns = Object.fromEntries(COLUMNS.map((name) => [name, batch[name].slice(start, end)]));
  return { ...batch, ...columns, mask: batch.mask.slice(start, end), offsets: batch.offsets.slice(from, to + 1).map((offset) => offset - start) };
}
