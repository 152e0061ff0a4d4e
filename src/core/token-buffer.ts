/**
 * Tokens are the truth: one append-only record of an episode as the policy saw it. Sampled ids are kept as they were sampled and
 * never made again from text; environment text is tokenised alone and gets mask 0. Nothing is ever removed or rewritten.
 */
import type { SegmentKind } from './environment.ts';
import { NumericPolicyError, PrefixBreakError } from './errors.ts';

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

export class TokenBuffer {
  #ids = new Int32Array(1024);
  #mask = new Uint8Array(1024);
  #logProbs = new Float64Array(1024);
  #length = 0;
  readonly #segments: TokenSegment[] = [];

  get length(): number {
    return this.#length;
  }

  /** All token ids so far. [T]; a view, valid until the next append. */
  get ids(): Int32Array {
    return this.#ids.subarray(0, this.#length);
  }

  /** 1 on sampled tokens, 0 on prompt and environment tokens. [T]; a view, valid until the next append. */
  get mask(): Uint8Array {
    return this.#mask.subarray(0, this.#length);
  }

  /** Log-prob of each sampled token; NaN exactly where the mask is 0. [T]; a view, valid until the next append. */
  get logProbs(): Float64Array {
    return this.#logProbs.subarray(0, this.#length);
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
    this.#logProbs.fill(NaN, start, this.#length);
    this.#segments.push({ kind, start, end: this.#length, version: null });
  }

  /**
   * Appends the sampled tokens through the one that completes the first `keptChars` characters (UTF-16 units of `text`); later tokens and
   * trailing stop ids are dropped. Returns how many tokens stay and the characters of the last one beyond the cut.
   * Throws NumericPolicyError when a kept token has a log-prob that is not finite: such a rollout can be neither trusted nor trained on.
   */
  commit(sample: SampledTokens, keptChars: number, version: number): { tokens: number; overhang: string } {
    let count = 0;
    if (keptChars > 0) {
      while (count < sample.ids.length && sample.textEnds[count]! < keptChars) count++;
      count = Math.min(count + 1, sample.ids.length);
    }
    for (let i = 0; i < count; i++) {
      if (!Number.isFinite(sample.logProbs[i])) {
        throw new NumericPolicyError(
          `Expected a finite log-prob for every sampled token, got ${sample.logProbs[i]} for token ${i} (id ${sample.ids[i]}); ` +
            'the server computed something that cannot be trusted: check its adapter and its numeric health',
        );
      }
    }
    const start = this.#grow(count);
    this.#ids.set(sample.ids.subarray(0, count), start);
    this.#logProbs.set(sample.logProbs.subarray(0, count), start);
    this.#mask.fill(1, start, this.#length);
    this.#segments.push({ kind: 'model', start, end: this.#length, version });
    const end = count === 0 ? 0 : sample.textEnds[count - 1]!;
    const overhang = end <= keptChars ? '' : (sample.text + sample.tail).slice(keptChars, end);
    return { tokens: count, overhang };
  }

  /** Throws PrefixBreakError unless `ids` begins with everything in this buffer. */
  assertPrefixOf(ids: Int32Array): void {
    const own = this.ids;
    for (let i = 0; i < own.length; i++) {
      if (own[i] !== ids[i]) {
        throw new PrefixBreakError(
          `Expected the next prompt to extend the last one token by token, got ${ids[i] ?? 'its end'} where token ${i} is ${own[i]}`,
        );
      }
    }
  }

  #grow(count: number): number {
    const start = this.#length;
    const length = start + count;
    if (length > this.#ids.length) {
      const capacity = Math.max(length, this.#ids.length * 2);
      const grown = { ids: new Int32Array(capacity), mask: new Uint8Array(capacity), logProbs: new Float64Array(capacity) };
      grown.ids.set(this.ids);
      grown.mask.set(this.mask);
      grown.logProbs.set(this.logProbs);
      this.#ids = grown.ids;
      this.#mask = grown.mask;
      this.#logProbs = grown.logProbs;
    }
    this.#length = length;
    return start;
  }
}
