/**
 * The entropy bonus: a term of the loss that rewards a policy for high entropy. Search-R1 and verl subtract coefficient · masked mean of the
 * entropy from the policy loss; here the divisor is the policy term's, over the whole optimiser step. It needs the entropy of whole distributions
 * and a backend that propagates its gradient: log-probs of sampled tokens do not suffice.
 */
import { type Aggregation, tokenWeight } from './aggregation.ts';
import { checkCounts, type TokenCounts, type TokenLayout, trainedTokens } from './token-mask.ts';

/** Whole sequences, concatenated. */
export interface EntropyBatch extends TokenLayout {
  /** Entropy of each token's distribution under the trained policy, in nats. [N]; not read where the mask is 0. */
  readonly entropy: Float64Array;
}

export interface EntropyBonus {
  /** −coefficient · aggregated entropy: this batch's share of the step's loss; add it to the policy loss. */
  readonly loss: number;
  /** dLoss / dentropy, exactly 0 where the mask is 0. [N] */
  readonly dEntropy: Float64Array;
}

/**
 * @param coefficient at least 0. Upstream: 0.001
 * @param counts of the whole optimiser step; `batch` may be a part of it
 */
export function entropyBonus(batch: EntropyBatch, coefficient: number, aggregation: Aggregation, counts: TokenCounts): EntropyBonus {
  const { entropy, mask } = batch;
  if (entropy.length !== mask.length) throw new RangeError(`The mask has ${mask.length} tokens, but there are ${entropy.length} entropies`);
  const { positions, starts } = trainedTokens(batch);
  checkCounts(starts, counts);
  const dEntropy = new Float64Array(mask.length);
  let loss = 0;
  for (let i = 0; i < starts.length - 1; i++) {
    const own = positions.subarray(starts[i], starts[i + 1]);
    if (own.length === 0) continue;
    const slope = -coefficient * tokenWeight(aggregation, own.length, counts);
    let sum = 0;
    for (const t of own) {
      sum += entropy[t]!;
      dEntropy[t] = slope;
    }
    loss += slope * sum;
  }
  return { loss, dEntropy };
}
