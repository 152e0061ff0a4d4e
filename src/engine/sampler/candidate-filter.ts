/**
 * The distribution that is drawn from where not every token may come: min-p, top-k and top-p as vLLM does them, in float64.
 *
 * vLLM's order (0.32, v1/sample/sampler.py): allowed ids and suppressed end tokens first; then temperature, min-p, top-k, top-p, each on what the one before has left,
 * renormalised. Its ties: top-k keeps all that equal the k-th (ops/topk_topp_sampler.py, apply_top_k_only); top-p sums from the unlikeliest up and drops while the sum is
 * at most 1 - p, never the last. Among equal ones at that edge it leaves the choice to the sort; here the lower id stays.
 */
import { likeliest } from './likeliest.ts';
import type { SamplingPlan } from './sampling-plan.ts';

/** So many are found faster one by one than by sorting all. */
const FEW = 64;

export class CandidateFilter {
  /** The tokens that are left, ascending. The first `count` are meant. */
  readonly ids: Int32Array;
  /** Natural log, of the distribution over those alone. */
  readonly logProbs: Float64Array;
  count = 0;

  constructor(vocabularySize: number) {
    this.ids = new Int32Array(vocabularySize);
    this.logProbs = new Float64Array(vocabularySize);
  }

  /** Replaces what it holds. Logits are finite, `[offset, offset + vocabularySize)`. */
  apply(logits: Float32Array, offset: number, plan: SamplingPlan, suppresses: boolean): void {
    this.#admit(logits, offset, plan, suppresses);
    if (!plan.isGreedy) {
      // Before min-p, which gives the same and leaves it less to do: both keep the likeliest down to a value of their own.
      if (plan.topK > 0) this.#keepLargest(plan.topK);
      if (plan.minP > 0) this.#keepFrom(this.#largest() + Math.log(plan.minP));
      if (plan.topP < 1) this.#keepMass(plan.topP);
    }
    const logSum = this.#logSum();
    for (let i = 0; i < this.count; i++) this.logProbs[i]! -= logSum;
  }

  /** The place of the likeliest one. */
  best(): number {
    return likeliest(this.logProbs, 0, this.count, 1)[0]!;
  }

  /** The first place whose cumulative probability exceeds u, in [0, 1). */
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
    // Only end tokens are allowed: then one has to come.
    if (this.count === 0) this.#admit(logits, offset, plan, false);
  }

  /** Drops what is below, and of those that are just that much all but the first `equals`. */
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
    // What is below its share of the dropped mass is dropped for certain: only the rest needs sorting. Where all are equal, rounding must not make that all of them.
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

  /** Log of the sum of exp. */
  #logSum(): number {
    const largest = this.#largest();
    let sum = 0;
    for (let i = 0; i < this.count; i++) sum += Math.exp(this.logProbs[i]! - largest);
    return largest + Math.log(sum);
  }
}
