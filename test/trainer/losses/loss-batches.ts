/** Random ragged batches and configurations of the losses, and what the tests do with them. */
import fc from 'fast-check';
import type { Aggregation } from '../../../src/trainer/losses/aggregation.ts';
import type { KlConfig } from '../../../src/trainer/losses/kl.ts';
import type { Objective, RatioLossConfig } from '../../../src/trainer/losses/ratio-loss.ts';
import type { SamplerCorrection } from '../../../src/trainer/losses/sampler-correction.ts';
import { broadcastOverTokens } from '../../../src/trainer/losses/token-counts.ts';
import type { TokenLossBatch } from '../../../src/trainer/token-loss.ts';

/** A batch with everything a configuration may ask for. */
export type FullBatch = Required<Omit<TokenLossBatch, 'turns' | 'positions' | 'turnPositions' | 'kinds' | 'rolloutIds' | 'lengths'>>;

/** The arrays of a batch that have one entry per token. */
const COLUMNS = ['logProbs', 'oldLogProbs', 'advantages', 'referenceLogProbs', 'samplerLogProbs', 'entropy'] as const;

// Even steps: fc.double favours 0 and the smallest numbers, where most formulas are alike.
const logProb = fc.integer({ min: -6000, max: -10 }).map((n) => n / 1000);
const shift = fc.integer({ min: -1000, max: 1000 }).map((n) => n / 997);
const entropy = fc.integer({ min: 0, max: 4000 }).map((n) => n / 1000);
const token = fc.record({ logProb, entropy, old: shift, reference: shift, sampler: shift });
const sequence = fc.record({
  tokens: fc.array(token, { maxLength: 6 }),
  advantage: fc.integer({ min: -20, max: 20 }).map((n) => n / 10),
  role: fc.constantFrom('writer', 'judge'),
});

/** Up to five sequences of up to six tokens; some have none. */
export const anyBatch: fc.Arbitrary<FullBatch> = fc.array(sequence, { minLength: 1, maxLength: 5 }).map((sequences) => {
  const tokens = sequences.flatMap((s) => s.tokens);
  const column = (value: (t: (typeof tokens)[number]) => number) => Float64Array.from(tokens, value);
  const offsets = Int32Array.from(sequences.reduce((ends, s) => [...ends, ends.at(-1)! + s.tokens.length], [0]));
  return {
    offsets,
    logProbs: column((t) => t.logProb),
    oldLogProbs: column((t) => t.logProb + t.old),
    advantages: broadcastOverTokens(
      sequences.map((s) => s.advantage),
      offsets,
    ),
    referenceLogProbs: column((t) => t.logProb + t.reference),
    samplerLogProbs: column((t) => t.logProb + t.old + t.sampler),
    entropy: column((t) => t.entropy),
    roles: sequences.map((s) => s.role),
  };
});

/** One sequence per row of log-ratios: old, reference and sampler log-probs 0, entropies 1, one role. */
export function batchOf(logRatios: readonly (readonly number[])[], advantage: number): FullBatch {
  const offsets = Int32Array.from(logRatios.reduce((ends, row) => [...ends, ends.at(-1)! + row.length], [0]));
  const logProbs = Float64Array.from(logRatios.flat());
  const zeros = new Float64Array(logProbs.length);
  return {
    offsets,
    logProbs,
    oldLogProbs: zeros,
    referenceLogProbs: zeros,
    samplerLogProbs: zeros,
    advantages: zeros.map(() => advantage),
    entropy: zeros.map(() => 1),
    roles: logRatios.map(() => 'policy'),
  };
}

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

const anyCorrection: fc.Arbitrary<SamplerCorrection> = fc.record({
  level: fc.constantFrom('token' as const, 'sequence' as const, 'geometric' as const),
  mode: fc.constantFrom('truncate' as const, 'mask' as const),
  min: fc.constantFrom(0, 0.7),
  max: fc.constantFrom(1.3, 2),
});

/** Configurations whose loss is the function that its gradient derives: no weight that is held constant. */
export const differentiableConfig: fc.Arbitrary<RatioLossConfig> = fc.record({
  ratio: fc.constantFrom('token' as const, 'sequence' as const),
  objective: smoothObjective,
  logRatioClamp: fc.constantFrom(null, 0.5),
  correction: fc.option(anyCorrection, { nil: null }),
  aggregation: anyAggregation,
  kl: fc.option(anyKl, { nil: null }),
  entropyCoefficient: fc.constantFrom(0, 0.001, 0.5),
});

/** CISPO included. */
export const anyConfig: fc.Arbitrary<RatioLossConfig> = fc
  .tuple(differentiableConfig, fc.option(fc.constant<Objective>({ kind: 'cispo', ratioMin: 0.8, ratioMax: 1.28 }), { nil: null }))
  .map(([config, objective]) => ({ ...config, ...(objective && { objective }) }));

/** Sequences [from, to) of a batch. */
function sliceSequences(batch: FullBatch, from: number, to: number): FullBatch {
  const [start, end] = [batch.offsets[from]!, batch.offsets[to]!];
  const columns = Object.fromEntries(COLUMNS.map((name) => [name, batch[name].slice(start, end)]));
  const offsets = batch.offsets.slice(from, to + 1).map((offset) => offset - start);
  return { ...batch, ...columns, offsets, roles: batch.roles.slice(from, to) };
}

/** The batch in up to three parts of whole sequences, cut at any two numbers. */
export function splitSequences(batch: FullBatch, cuts: readonly number[]): FullBatch[] {
  const sequences = batch.offsets.length - 1;
  const ends = [...cuts.map((cut) => cut % (sequences + 1)).toSorted((a, b) => a - b), sequences];
  return ends.map((end, i) => sliceSequences(batch, i === 0 ? 0 : ends[i - 1]!, end));
}
