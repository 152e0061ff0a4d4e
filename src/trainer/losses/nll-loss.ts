/**
 * Weighted negative log-likelihood, −a log π per token: supervised fine-tuning with the weight of a demonstration's token as a, or REINFORCE without a
 * ratio with its advantage. Leave tokens of weight 0 out of the batch, because they would count in the divisor.
 */
import { type Aggregation, tokenWeight } from './aggregation.ts';
import { meanMetric } from './loss-metrics.ts';
import { checkLayout, lengthOf } from './token-counts.ts';
import { checkColumns, type LossNeeds, type TokenLoss } from '../token-loss.ts';

const NEEDS: LossNeeds = { old: false, reference: false, sampler: false };

/** Metrics: `nll`, the mean −log π over trained tokens, whatever their weights. */
export function nllLoss(aggregation: Aggregation): TokenLoss {
  return {
    needs: NEEDS,
    ignoresZeroAdvantages: true,
    evaluate(batch, counts) {
      const { offsets, logProbs, advantages } = batch;
      checkColumns(NEEDS, batch);
      checkLayout(batch, counts);
      const gradient = new Float64Array(logProbs.length);
      let [loss, sum] = [0, 0];
      for (let i = 0; i < offsets.length - 1; i++) {
        const [start, end] = [offsets[i]!, offsets[i + 1]!];
        if (start === end) continue;
        const weight = tokenWeight(aggregation, lengthOf(batch, i), counts);
        for (let t = start; t < end; t++) {
          gradient[t] = -weight * advantages[t]!;
          loss += gradient[t]! * logProbs[t]!;
          sum -= logProbs[t]!;
        }
      }
      return { loss, gradient, metrics: logProbs.length === 0 ? {} : { nll: meanMetric(sum, logProbs.length) } };
    },
  };
}
