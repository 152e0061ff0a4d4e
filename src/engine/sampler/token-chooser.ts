/** Chooses one token from a row of logits and reports its log-prob. */
import type { Random } from '../../core/random.ts';
import type { TokenLogProb } from '../engine-types.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { EngineMemory } from '../kernels/web-assembly.ts';
import { CandidateFilter } from './candidate-filter.ts';
import { likeliest } from './likeliest.ts';
import type { SamplingPlan } from './sampling-plan.ts';

export interface Chosen {
  readonly id: number;
  /** NaN if not requested. */
  readonly logProb: number;
  /** The chosen token first, then the likeliest, which may include it again; null if not requested. */
  readonly alternatives: readonly TokenLogProb[] | null;
}

export type SamplerKernels = Pick<Kernels, 'logSoftmax' | 'pick' | 'argmax' | 'countAbove' | 'allFinite'>;

export class TokenChooser {
  readonly #kernels: SamplerKernels;
  readonly #memory: EngineMemory;
  readonly #vocabulary: number;
  /** Vocabulary size, rounded up as the kernels require. */
  readonly #width: number;
  readonly #filter: CandidateFilter;
  readonly #saved: Float32Array;
  #floats: Float32Array = new Float32Array(0);

  constructor(kernels: SamplerKernels, memory: EngineMemory, vocabularySize: number) {
    this.#kernels = kernels;
    this.#memory = memory;
    this.#vocabulary = vocabularySize;
    this.#width = Math.ceil(vocabularySize / 8) * 8;
    this.#filter = new CandidateFilter(vocabularySize);
    this.#saved = new Float32Array(vocabularySize);
  }

  /** Overwrites the row. Draws one random number, none if greedy. `generated` counts the tokens before this one. Null if a logit is not finite. */
  choose(row: number, plan: SamplingPlan, generated: number, random: Random): Chosen | null {
    if (!this.#isFinite(row)) return null;
    const suppresses = generated < plan.minTokens && plan.suppressed.size > 0;
    const isFiltered = !plan.isGreedy && (plan.topK > 0 || plan.topP < 1 || plan.minP > 0);
    if (plan.allowed !== null || suppresses || isFiltered) return this.#chooseFiltered(row, plan, suppresses, random);
    return this.#chooseOfAll(row, plan, random);
  }

  /** The token's raw log-prob and this many alternatives. Overwrites the row. Null if a logit is not finite. */
  score(row: number, id: number, alternatives: number): readonly TokenLogProb[] | null {
    if (!this.#isFinite(row)) return null;
    this.#logSoftmax(row, 1);
    return this.#ranked(row, id, alternatives);
  }

  /** The unfiltered case, which uses only kernels and gives the same bits as training. */
  #chooseOfAll(row: number, plan: SamplingPlan, random: Random): Chosen {
    const { isGreedy, inverseTemperature, logProbs } = plan;
    const wantsOther = logProbs !== null && plan.isRaw && inverseTemperature !== 1;
    const at = row / 4;
    let id: number;
    if (isGreedy) id = this.#kernels.argmax(row, this.#vocabulary);
    else {
      if (wantsOther) this.#saved.set(this.#floats.subarray(at, at + this.#vocabulary));
      this.#logSoftmax(row, inverseTemperature);
      id = this.#kernels.pick(row, this.#vocabulary, random.float());
      // Rounding left the sum below the drawn number: take the likeliest.
      if (id < 0) id = this.#kernels.argmax(row, this.#vocabulary);
    }
    if (logProbs === null) return { id, logProb: NaN, alternatives: null };
    if (wantsOther) this.#floats.set(this.#saved, at);
    if (wantsOther || isGreedy) this.#logSoftmax(row, 1);
    return this.#reported(row, id, logProbs);
  }

  #chooseFiltered(row: number, plan: SamplingPlan, suppresses: boolean, random: Random): Chosen {
    const filter = this.#filter;
    filter.apply(this.#floats, row / 4, plan, suppresses);
    const place = plan.isGreedy ? filter.best() : filter.pick(random.float());
    const id = filter.ids[place]!;
    if (plan.logProbs === null) return { id, logProb: NaN, alternatives: null };
    if (plan.isRaw) {
      this.#logSoftmax(row, 1);
      return this.#reported(row, id, plan.logProbs);
    }
    const logProb = Math.fround(filter.logProbs[place]!);
    if (plan.logProbs === 0) return { id, logProb, alternatives: null };
    const best = likeliest(filter.logProbs, 0, filter.count, plan.logProbs);
    const rank = 1 + filter.logProbs.subarray(0, filter.count).reduce((above, each) => above + Number(each > filter.logProbs[place]!), 0);
    const others = Array.from(best, (each, i) => ({ id: filter.ids[each]!, logProb: Math.fround(filter.logProbs[each]!), rank: i + 1 }));
    return { id, logProb, alternatives: [{ id, logProb, rank }, ...others] };
  }

  #reported(row: number, id: number, count: number): Chosen {
    return { id, logProb: this.#floats[row / 4 + id]!, alternatives: count === 0 ? null : this.#ranked(row, id, count) };
  }

  /** Reads a row of log-probs. */
  #ranked(row: number, id: number, count: number): TokenLogProb[] {
    const at = row / 4;
    const logProb = this.#floats[at + id]!;
    const own = { id, logProb, rank: 1 + this.#kernels.countAbove(row, this.#vocabulary, logProb) };
    const best = likeliest(this.#floats, at, this.#vocabulary, count);
    return [own, ...Array.from(best, (each, i) => ({ id: each, logProb: this.#floats[at + each]!, rank: i + 1 }))];
  }

  #isFinite(row: number): boolean {
    // After the memory has grown, the old buffer covers only its old size.
    if (row + this.#width * 4 > this.#floats.byteLength) this.#floats = new Float32Array(this.#memory.buffer);
    return this.#kernels.allFinite(row, this.#vocabulary) === 1;
  }

  #logSoftmax(row: number, inverseTemperature: number): void {
    this.#kernels.logSoftmax(row, this.#width, 1, this.#width, this.#vocabulary, inverseTemperature);
  }
}
