/** A request from its arrival to its end: its tokens, how many of them are cached, and its results. */
import type { Random } from '../../core/random.ts';
import type { Segment } from '../compute/forward-types.ts';
import type { Generation, GenerationDelta, TokenLogProb } from '../engine-types.ts';
import type { AdapterWeights } from '../model/model-types.ts';
import type { BlockPool, PrefixScope } from './block-pool.ts';
import { BlockTable } from './block-table.ts';
import type { GeneratedText } from './generated-text.ts';
import type { SamplerRequest } from './sampler-types.ts';
import type { SamplingPlan } from './sampling-plan.ts';
import type { Chosen } from './token-chooser.ts';

export interface ActiveRequestOptions {
  readonly request: SamplerRequest;
  /** Ascending number in the order of arrival. */
  readonly arrival: number;
  readonly pool: BlockPool;
  readonly plan: SamplingPlan;
  readonly random: Random;
  readonly text: GeneratedText;
  readonly maxModelLen: number;
}

/** Tokens of an answer that are allocated at first. */
const FIRST_ROOM = 64;

/** The part of a request that the next pass computes; the object is reused for the request's whole life. */
class NextSegment implements Segment {
  tokens: Int32Array;
  past = 0;
  blocks: Int32Array;
  readonly adapter: AdapterWeights | null;
  logits: Segment['logits'] = 'last';

  constructor(adapter: AdapterWeights | null) {
    this.adapter = adapter;
    this.tokens = new Int32Array(0);
    this.blocks = this.tokens;
  }
}

export class ActiveRequest {
  readonly request: SamplerRequest;
  readonly arrival: number;
  readonly plan: SamplingPlan;
  readonly random: Random;
  readonly text: GeneratedText;
  readonly scope: PrefixScope;
  readonly table: BlockTable;
  readonly segment: NextSegment;
  readonly promptLength: number;
  /** Maximum of tokens, including the prompt. */
  readonly limit: number;
  /** Prompt and answer; only the first `length` are valid. */
  tokens: Int32Array;
  length: number;
  /** Tokens whose keys and values are in the cache. */
  computed = 0;
  isRunning = false;
  /** Tokens that were cached when the request first ran; null before. */
  cachedTokens: number | null = null;
  /** The token chosen in the last pass. */
  chosen: Chosen | null = null;
  isNotFinite = false;
  finish: Pick<Generation, 'finish' | 'stopReason'> | null = null;
  readonly promptLogProbs: (readonly TokenLogProb[] | null)[] = [null];
  readonly #logProbs: number[] = [];
  readonly #alternatives: (readonly TokenLogProb[])[] = [];
  /** The segment's tokens when only one is computed. */
  readonly #single = new Int32Array(1);

  constructor({ request, arrival, pool, plan, random, text, maxModelLen }: ActiveRequestOptions) {
    this.request = request;
    this.arrival = arrival;
    this.plan = plan;
    this.random = random;
    this.text = text;
    this.scope = { adapter: request.adapter?.id ?? 0, salt: request.cacheSalt };
    this.table = new BlockTable(pool, this.scope);
    this.segment = new NextSegment(request.adapter);
    this.promptLength = request.prompt.length;
    this.limit = Math.min(this.promptLength + request.maxTokens, maxModelLen);
    this.length = this.promptLength;
    this.tokens = new Int32Array(Math.min(this.limit, this.length + FIRST_ROOM));
    this.tokens.set(request.prompt);
  }

  get generated(): number {
    return this.length - this.promptLength;
  }

  /** Tokens that are not in the cache yet. */
  get remaining(): number {
    return this.length - this.computed;
  }

  /** True if log-probs of the prompt are still missing. */
  get isScoring(): boolean {
    return this.request.promptLogProbs !== null && this.promptLogProbs.length < this.promptLength;
  }

  /** The number of positions that may be read from the cache. The last token must always be computed for its logits, as must the tokens that score the prompt. */
  get readable(): number {
    return this.isScoring ? this.promptLogProbs.length - 1 : this.length - 1;
  }

  /** Sets `segment` to the next tokens, at most `most`; returns how many. */
  prepare(most: number): number {
    const { segment, computed } = this;
    const isScoring = this.isScoring;
    // Tokens that were scored before a preemption are recomputed without logits.
    const end = Math.min(isScoring && computed < this.readable ? this.readable : this.length, computed + most);
    const count = end - computed;
    if (count === 1) {
      this.#single[0] = this.tokens[computed]!;
      segment.tokens = this.#single;
    } else segment.tokens = this.tokens.subarray(computed, end);
    segment.past = computed;
    segment.blocks = this.table.view(end);
    segment.logits = isScoring && computed >= this.readable ? 'all' : end === this.length ? 'last' : 'none';
    return count;
  }

  append({ id, logProb, alternatives }: Chosen): void {
    if (this.length === this.tokens.length) {
      const grown = new Int32Array(Math.min(this.limit, 2 * this.length));
      grown.set(this.tokens);
      this.tokens = grown;
    }
    this.tokens[this.length++] = id;
    if (this.request.logProbs === null) return;
    this.#logProbs.push(logProb);
    if (alternatives !== null) this.#alternatives.push(alternatives);
  }

  /** The delta of the last token. */
  delta({ id, logProb, alternatives }: Chosen): GenerationDelta {
    const logProbs = this.request.logProbs === null ? new Float32Array(0) : Float32Array.of(logProb);
    return { ids: Int32Array.of(id), text: this.text.takeNew(), logProbs, alternatives: alternatives === null ? null : [alternatives] };
  }

  generation(finish: Pick<Generation, 'finish' | 'stopReason'>): Generation {
    const { logProbs, promptLogProbs } = this.request;
    return {
      ids: this.tokens.slice(this.promptLength, this.length),
      text: this.text.text,
      textOffsets: this.text.offsets,
      logProbs: Float32Array.from(this.#logProbs),
      alternatives: logProbs === null || logProbs === 0 ? null : this.#alternatives,
      promptLogProbs: promptLogProbs === null ? null : this.promptLogProbs,
      ...finish,
      cachedTokens: this.cachedTokens ?? 0,
    };
  }
}
