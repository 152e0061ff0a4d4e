/**
 * Tokens are the truth: one append-only record of an episode as the policy saw it. Sampled ids are kept as they were sampled and
 * never made again from text; environment text is tokenised alone and gets mask 0. Nothing is ever removed or rewritten.
 */
import type { SegmentKind } from './environment.ts';
import { NumericPolicyError } from './errors.ts';

/** What a sampler returned for one generation. The arrays are parallel. */
export interface SampledTokens {
  /** The decoded text, stop string included, special tokens left out. */
  readonly text: string;
  /** Text of the last token beyond `text`: a stop string may end inside a token, and the server cuts the text there. Usually empty. */
  readonly tail: string;
  readonly ids: Int32Array;
  /** Natural-log probability of each id under the sampling policy. [T]; `-Infinity` or NaN marks a value the server could not give. */
  readonly logProbs: Float64Array;
  /** UTF-16 offset in `text + tail` after token i. [T], non-decreasing. */
  readonly textEnds: Int32Array;
}

/** A stretch of the buffer written by one author. `[start, end)` in tokens. */
export interface TokenSegment {
  readonly kind: SegmentKind;
  readonly start: number;
  readonly end: number;
  /** Version of the policy that sampled it; null where the policy did not write. */
  readonly version: number | null;
}

export interface CommittedTokens {
  /** Tokens appended. */
  readonly tokens: number;
  /** Characters of the last token beyond the cut; the model's next context holds them, the scored text does not. */
  readonly overhang: string;
  /** Nothing of the sample was dropped. */
  readonly isWhole: boolean;
}

export class TokenBuffer {
  #ids = new Int32Array(0);
  #length = 0;
  /** Log-probs of the sampled tokens alone, in order: most tokens are the environment's, and a run holds many buffers. */
  #sampledLogProbs = new Float64Array(0);
  #sampled = 0;
  readonly #segments: TokenSegment[] = [];

  get length(): number {
    return this.#length;
  }

  /** How many tokens have mask 1. */
  get sampledLength(): number {
    return this.#sampled;
  }

  /** All token ids so far. [T]; a view, valid until the next append. */
  get ids(): Int32Array {
    return this.#ids.subarray(0, this.#length);
  }

  /** 1 on sampled tokens, 0 on prompt and environment tokens. [T]; a new array at each call. */
  get mask(): Uint8Array {
    const mask = new Uint8Array(this.#length);
    for (const { kind, start, end } of this.#segments) if (kind === 'model') mask.fill(1, start, end);
    return mask;
  }

  /** Log-prob of each sampled token; NaN exactly where the mask is 0. [T]; a new array at each call. */
  get logProbs(): Float64Array {
    const logProbs = new Float64Array(this.#length).fill(NaN);
    let from = 0;
    for (const { kind, start, end } of this.#segments) {
      if (kind !== 'model') continue;
      logProbs.set(this.#sampledLogProbs.subarray(from, from + end - start), start);
      from += end - start;
    }
    return logProbs;
  }

  get segments(): readonly TokenSegment[] {
    return this.#segments;
  }

  /** Tokens of the prompt, 0 before it is appended. */
  get promptLength(): number {
    const first = this.#segments[0];
    return first?.kind === 'prompt' ? first.end : 0;
  }

  /** Appends text that the policy did not write: the prompt (once, first) or an observation. */
  appendGiven(kind: Exclude<SegmentKind, 'model'>, ids: Int32Array): void {
    const start = this.#grow(ids.length);
    this.#ids.set(ids, start);
    this.#segments.push({ kind, start, end: this.#length, version: null });
  }

  /**
   * Appends the sampled tokens through the one that completes the first `keptChars` characters (UTF-16 units of `text`) and drops later
   * ones. Tokens without text behind it, the one that ended the turn among them, are dropped too, unless the whole text is kept and
   * `keepsEnd` says otherwise. Returns how many tokens stay, the characters of the last one beyond the cut, and whether every sampled
   * token stayed. Throws NumericPolicyError when a kept token has a log-prob that is not finite: such a rollout can be neither trusted nor
   * trained on.
   */
  commit(sample: SampledTokens, keptChars: number, version: number, { keepsEnd = false } = {}): CommittedTokens {
    const isWhole = keptChars >= sample.text.length;
    const count = isWhole && keepsEnd ? sample.ids.length : countThrough(sample, keptChars);
    this.#appendSampled(sample, 0, count, version);
    const end = count === 0 ? 0 : sample.textEnds[count - 1]!;
    const overhang = end <= keptChars ? '' : (sample.text + sample.tail).slice(keptChars, end);
    return { tokens: count, overhang, isWhole: count === sample.ids.length };
  }

  /** Appends what `commit` left of a sample whose whole text it kept: the token that ended the turn. Nothing may lie between. */
  commitEnd(sample: SampledTokens, committed: number, version: number): number {
    this.#appendSampled(sample, committed, sample.ids.length, version);
    return sample.ids.length - committed;
  }

  #appendSampled(sample: SampledTokens, from: number, to: number, version: number): void {
    for (let i = from; i < to; i++) {
      if (!Number.isFinite(sample.logProbs[i])) {
        throw new NumericPolicyError(
          `The policy server gave log-prob ${sample.logProbs[i]} for sampled token ${i} (id ${sample.ids[i]}). ` +
            'It computed something that cannot be trusted: check its adapter and its numeric health.',
        );
      }
    }
    const count = to - from;
    const start = this.#grow(count);
    this.#ids.set(sample.ids.subarray(from, to), start);
    this.#sampledLogProbs = withRoom(this.#sampledLogProbs, this.#sampled + count, (capacity) => new Float64Array(capacity));
    this.#sampledLogProbs.set(sample.logProbs.subarray(from, to), this.#sampled);
    this.#sampled += count;
    const last = this.#segments.at(-1);
    if (from > 0 && last?.kind === 'model' && last.end === start && last.version === version)
      this.#segments.splice(-1, 1, { ...last, end: this.#length });
    else this.#segments.push({ kind: 'model', start, end: this.#length, version });
  }

  #grow(count: number): number {
    const start = this.#length;
    this.#length += count;
    this.#ids = withRoom(this.#ids, this.#length, (capacity) => new Int32Array(capacity));
    return start;
  }
}

/** Tokens through the one that completes the first `keptChars` characters; none for none. */
function countThrough({ ids, textEnds }: SampledTokens, keptChars: number): number {
  if (keptChars <= 0) return 0;
  let count = 0;
  while (count < ids.length && textEnds[count]! < keptChars) count++;
  return Math.min(count + 1, ids.length);
}

/** The array itself if it is long enough, else a longer copy; lengths grow by half at least, so that appending stays linear. */
function withRoom<A extends Int32Array | Float64Array>(array: A, length: number, allocate: (capacity: number) => A): A {
  if (length <= array.length) return array;
  const grown = allocate(Math.max(length, Math.ceil(array.length * 1.5), 64));
  grown.set(array);
  return grown;
}
