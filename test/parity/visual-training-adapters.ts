/** Adapters for DDAI's arithmetic of training: the GSPO loss and the advantages of groups. */
import { groupAdvantages } from '../../src/trainer/credit/group-advantages.ts';
import { ratioLoss } from '../../src/trainer/losses/ratio-loss.ts';
import { countTokens } from '../../src/trainer/losses/token-counts.ts';
import type { TokenLoss, TokenLossBatch } from '../../src/trainer/token-loss.ts';
import { unmasked } from './masked-batch.ts';
import { flat, maskOf, offsetsOf, type Rows, rowsOf } from './ragged-rows.ts';
import type { Adapter } from './vectors.ts';

/** Of a sum over the tokens of a sequence. */
const ROUNDING = 1e-9;

interface GspoInput {
  readonly old_log_prob: Rows;
  readonly log_prob: Rows;
  readonly advantages: Rows;
  readonly eos_mask: Rows;
  readonly clip_low: number;
  readonly clip_high: number;
}

const gspo: Adapter = {
  actual: (input: GspoInput) => {
    const { old_log_prob, log_prob, advantages, eos_mask, clip_low: clipLow, clip_high: clipHigh } = input;
    const { batch, counts, scatter } = unmasked({
      offsets: offsetsOf(log_prob),
      mask: maskOf(eos_mask),
      logProbs: flat(log_prob),
      oldLogProbs: flat(old_log_prob),
      advantages: flat(advantages),
    });
    const loss = gspoLoss({ clipLow, clipHigh }).evaluate(batch, counts);
    return {
      pg_loss: loss.loss,
      grad: rowsOf(scatter(loss.gradient), log_prob),
      pg_clipfrac: upstreamClipFraction(batch, { clipLow, clipHigh }),
      ppo_kl: loss.metrics['approx_kl_k1']?.value ?? 0,
    };
  },
  // Upstream adds 1e-8 to the number of tokens.
  tolerance: 1e-6,
};

interface Clip {
  readonly clipLow: number;
  readonly clipHigh: number;
}

function gspoLoss(clip: Clip): TokenLoss {
  return ratioLoss({
    ratio: 'sequence',
    objective: { kind: 'clip', ...clip, dualClip: null },
    logRatioClamp: null,
    sequenceLogRatioMax: 10,
    correction: null,
    aggregation: { kind: 'sequence_mean', within: 'mean', countEmpty: false },
    kl: null,
  });
}

/**
 * Upstream's share of clipped sequences, by its own comparison: the clipped loss is larger than the loss taken. Because the larger loss is taken, this is 0
 * unless the loss is wrong; our metric `clip_fraction_sequences` compares the other way round.
 */
function upstreamClipFraction({ offsets, logProbs, oldLogProbs, advantages }: TokenLossBatch, clip: Clip): number {
  const sequences = Array.from(offsets.subarray(1), (end, i) => [offsets[i]!, end] as const).filter(([start, end]) => end > start);
  const larger = sequences.filter(([start, end]) => {
    const own = Int32Array.of(0, end - start);
    const part = (column: Float64Array) => column.subarray(start, end);
    const batch = { offsets: own, logProbs: part(logProbs), oldLogProbs: part(oldLogProbs!), advantages: part(advantages) };
    const { loss, metrics } = gspoLoss(clip).evaluate(batch, countTokens(own));
    const ratio = metrics['sequence_ratio_mean']!.value;
    // A sequence has one advantage.
    const clipped = -advantages[start]! * Math.min(Math.max(ratio, 1 - clip.clipLow), 1 + clip.clipHigh);
    return clipped - loss > ROUNDING * Math.max(1, Math.abs(loss));
  });
  return larger.length / Math.max(1, sequences.length);
}

const advantage: Adapter = {
  actual: ({ rewards, index }: { rewards: readonly number[]; index: readonly string[] }) => {
    const advantages = Array.from({ length: rewards.length }, () => 0);
    for (const group of new Set(index)) {
      const members = index.flatMap((id, i) => (id === group ? [i] : []));
      const values = members.map((i) => rewards[i]!);
      const credit = groupAdvantages(values, { baseline: 'mean', std: 'sample', epsilon: 1e-6, singleton: 'raw' });
      members.forEach((i, member) => (advantages[i] = credit.advantages[member]!));
    }
    return { advantages };
  },
  tolerance: 1e-5,
};

export const visualTrainingAdapters: Readonly<Record<string, Adapter>> = {
  visual_grpo_advantage: advantage,
  visual_gspo_loss: gspo,
};
