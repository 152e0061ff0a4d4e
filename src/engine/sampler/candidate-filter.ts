/**
 * The filtered distribution: allowed ids, min-p, top-k and top-p as in vLLM, in float64.
 *
 * vLLM's order (0.32, v1/sample/sampler.py): allowed ids and suppressed end tokens; then temperature, min-p, top-k, top-p, each on the renormalised rest of the one
 * before. Ties: top-k keeps all that equal the k-th (ops/topk_topp_sampler.py, apply_top_k_only). top-p sums from the least likely token up and drops tokens while
 * the sum is at most 1 - p, but never the last. Between equal tokens at that edge vLLM leaves the choice to the sort; this filter keeps the lower id.
 */
import { likeliest } from './likeliest.ts';
import type { SamplingPlan } from './sampling-plan.ts';

/** Up to this many are found faster by insertion than by sorting all. */
const FEW = 64;

export class CandidateFilter {
  /** The remaining tokens, ascending; only the first `count` are valid. */
  readonly ids: Int32Array;
  /** Natural log-probs of the distribution over those tokens. */
  readonly logProbs: Float64Array;
  count = 0;

  constructor(vocabularySize: number) {
    this.ids = new Int32Array(vocabularySize);
    this.logProbs = new Float64Array(vocabularySize);
  }

  /** Filters the finite logits `[offset, offset + vocabularySize)`. */
  apply(logits: Float32Array, offset: number, plan: SamplingPlan, suppresses: boolean): void {
    this.#admit(logits, offset, plan, suppresses);
    if (!plan.isGreedy) {
      // top-k runs before min-p, which then has less to do. The result is the same, because each keeps all tokens above its own threshold.
      if (plan.topK > 0) this.#keepLargest(plan.topK);
      if (plan.minP > 0) this.#keepFrom(this.#largest() + Math.log(plan.minP));
      if (plan.topP < 1) this.#keepMass(plan.topP);
    }
    const logSum = this.#logSum();
    for (let i = 0; i < this.count; i++) this.logProbs[i]! -= logSum;
  }

  /** Index of the likeliest token. */
  best(): number {
    return likeliest(this.logProbs, 0, this.count, 1)[0]!;
  }

  /** The first index whose cumulative probability exceeds u, in [0, 1). */
  pick(u: number): number {
    let sum = 0;
    for (let i = 0; i < this.count; i++) {
      sum += Math.exp(this.logProbs[i]!);
      if (sum > u) return i;
    }
    return this.best();
  }

  #admit(logits: Float32Array, offset: number, plan: SamplingPlan, suppresses: boolean): void {
    const { allowed, suppressed, inverseTemperature } = plan;
    const n = allowed?.length ?? this.ids.length;
    this.count = 0;
    for (let i = 0; i < n; i++) {
      const id = allowed === null ? i : allowed[i]!;
      if (suppresses && suppressed.has(id)) continue;
      this.ids[this.count] = id;
      this.logProbs[this.count++] = logits[offset + id]! * inverseTemperature;
    }
    // If only suppressed tokens are allowed, one of them must be sampled.
    if (this.count === 0) this.#admit(logits, offset, plan, false);
  }

  /** Drops values below `least`, and all but the first `equals` of those equal to it. */
  #keepFrom(least: number, equals = Infinity): void {
    let kept = 0;
    let left = equals;
    for (let i = 0; i < this.count; i++) {
      const each = this.logProbs[i]!;
      if (each < least || (each === least && left-- <= 0)) continue;
      this.ids[kept] = this.ids[i]!;
      this.logProbs[kept++] = each;
    }
    this.count = kept;
  }

  #keepLargest(k: number): void {
    if (k >= this.count) return;
    const least = k <= FEW ? this.logProbs[likeliest(this.logProbs, 0, this.count, k)[k - 1]!]! : this.#ascending()[this.count - k]!;
    this.#keepFrom(least);
  }

  #keepMass(topP: number): void {
    const logSum = this.#logSum();
    const dropped = 1 - topP;
    // Tokens below an equal share of the dropped mass are certain to go, so only the rest needs sorting. The minimum keeps rounding from dropping all equal tokens.
    const certain = Math.min(Math.log(dropped / this.count) + logSum, this.#largest());
    let sum = 0;
    for (let i = 0; i < this.count; i++) if (this.logProbs[i]! < certain) sum += Math.exp(this.logProbs[i]! - logSum);
    this.#keepFrom(certain);
    const sorted = this.#ascending();
    let first = 0;
    for (; first < this.count - 1; first++) {
      sum += Math.exp(sorted[first]! - logSum);
      if (sum > dropped) break;
    }
    const least = sorted[first]!;
    let beyond = first;
    while (beyond < this.count && sorted[beyond] === least) beyond++;
    this.#keepFrom(least, beyond - first);
  }

  #ascending(): Float64Array {
    return this.logProbs.subarray(0, this.count).toSorted();
  }

  #largest(): number {
    let largest = -Infinity;
    for (let i = 0; i < this.count; i++) if (this.logProbs[i]! > largest) largest = this.logProbs[i]!;
    return largest;
  }

  /** Log-sum-exp. */
  #logSum(): number {
    const largest = this.#largest();
    let sum = 0;
    for (let i = 0; i < this.count; i++) sum += Math.exp(this.logProbs[i]! - largest);
    return largest + Math.log(sum);
  }
}
