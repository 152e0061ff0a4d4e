/** Running sums of one evaluation of the ratio loss; `metrics` divides them and gives each its name in metrics.jsonl. */
import { meanMetric } from './loss-metrics.ts';
import type { LossMetric, LossMetrics } from '../token-loss.ts';

export class RatioSums {
  tokens = 0;
  sequences = 0;
  policyLoss = 0;
  klLoss = 0;
  entropyLoss = 0;
  ratio = 0;
  minRatio = Infinity;
  maxRatio = -Infinity;
  logRatio = 0;
  below = 0;
  above = 0;
  dual = 0;
  sequenceRatio = 0;
  clippedSequences = 0;
  correction = 0;
  minCorrection = Infinity;
  maxCorrection = -Infinity;
  outside = 0;
  mismatch = 0;
  kl = 0;

  metrics(measured: { readonly sequenceRatio: boolean; readonly correction: boolean; readonly kl: boolean; readonly entropy: boolean }): LossMetrics {
    const { tokens, sequences } = this;
    const sum = (value: number): LossMetric => ({ merge: 'sum', value });
    const perToken = (total: number) => meanMetric(total, tokens);
    const losses: LossMetrics = {
      policy_loss: sum(this.policyLoss),
      ...(measured.kl ? { kl_loss: sum(this.klLoss) } : {}),
      ...(measured.entropy ? { entropy_loss: sum(this.entropyLoss) } : {}),
    };
    if (tokens === 0) return losses;
    return {
      ...losses,
      ratio_mean: perToken(this.ratio),
      ratio_min: { merge: 'min', value: this.minRatio },
      ratio_max: { merge: 'max', value: this.maxRatio },
      approx_kl_k1: perToken(-this.logRatio),
      approx_kl: perToken(this.ratio - tokens - this.logRatio),
      clip_fraction: perToken(this.below + this.above),
      clip_fraction_low: perToken(this.below),
      clip_fraction_high: perToken(this.above),
      dual_clip_fraction: perToken(this.dual),
      ...(measured.sequenceRatio
        ? {
            sequence_ratio_mean: meanMetric(this.sequenceRatio, sequences),
            clip_fraction_sequences: meanMetric(this.clippedSequences, sequences),
          }
        : {}),
      ...(measured.correction
        ? {
            correction_mean: perToken(this.correction),
            correction_min: { merge: 'min', value: this.minCorrection },
            correction_max: { merge: 'max', value: this.maxCorrection },
            correction_outside_fraction: perToken(this.outside),
            correction_mismatch: perToken(this.mismatch),
          }
        : {}),
      ...(measured.kl ? { kl: perToken(this.kl) } : {}),
    };
  }
}
