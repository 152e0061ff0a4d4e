/**
 * The append-only record of an episode's tokens as the policy saw them. Sampled ids are kept as sampled and never re-encoded from text; environment
 * text is tokenised alone and gets mask 0. Nothing is removed or rewritten.
 */
import type { SegmentKind } from './environment.ts';
import { NumericPolicyError } from './errors.ts';
import type { PlacedImage } from './message.ts';
import { joinedSpans, spansBetween, type VersionSpan } from './version-spans.ts';

/** The sampled tokens of one generation. The arrays are parallel. */
export interface SampledTokens {
  /** The decoded text with the stop string, without special tokens. */
  readonly text: string;
  /** Text of the last token after the end of `text`: a stop string may end inside a token, where the server cuts the text. Usually empty. */
  readonly tail: string;
  /** [T] */
  readonly ids: Int32Array;
  /** Natural-log probability of each id under the sampling policy. [T]; `-Infinity` or NaN if the server could not compute it. */
  readonly logProbs: Float64Array;
  /** UTF-16 offset in `text + tail` after token i. [T], non-decreasing. */
  readonly textEnds: Int32Array;
  /** The versions that sampled the tokens, in order, T in all; given by a server that goes on with a generation under new weights. @default one version sampled all */
  readonly versions?: readonly VersionSpan[];
}

/** A range of tokens by one author. */
export interface TokenSegment {
  readonly kind: SegmentKind;
  /** Index of the first token. */
  readonly start: number;
  /** Index after the last token. */
  readonly end: number;
  /** Version of the policy that sampled it, the oldest if there are several; null if the policy did not write it. */
  readonly version: number | null;
  /** The versions that sampled its tokens, in order, if there are several. @default `version` sampled all of them */
  readonly versions?: readonly VersionSpan[];
}

export interface CommittedTokens {
  /** Number of appended tokens. */
  readonly tokens: number;
  /** Characters of the last token after the cut: in the policy's next context, but not in the scored text. */
  readonly overhang: string;
  /** True if no token of the sample was dropped. */
  readonly isWhole: boolean;
}

/**
 * A rollout's tokens with mask, log-probs and segments.
 * @example
 * const buffer = new TokenBuffer();
 * buffer.appendGiven('prompt', Int32Array.of(1, 2, 3));
 * buffer.commit(sample, sample.text.length, 0);
 */
export class TokenBuffer {
  #ids = new Int32Array(0);
  #length = 0;
  /** Log-probs of sampled tokens only, to save memory: most tokens are the environment's, and a run has many buffers. */
  #sampledLogProbs = new Float64Array(0);
  #sampled = 0;
  readonly #segments: TokenSegment[] = [];
  readonly #images: PlacedImage[] = [];

  /** Number of tokens. */
  get length(): number {
    return this.#length;
  }

  /** Number of tokens with mask 1. */
  get sampledLength(): number {
    return this.#sampled;
  }

  /** All token ids. [T]; a view, valid until the next append. */
  get ids(): Int32Array {
    return this.#ids.subarray(0, this.#length);
  }

  /** 1 for sampled tokens, 0 for prompt and environment tokens. [T]; a new array at each call. */
  get mask(): Uint8Array {
    const mask = new Uint8Array(this.#length);
    for (const { kind, start, end } of this.#segments) if (kind === 'model') mask.fill(1, start, end);
    return mask;
  }

  /** Natural-log probability of each sampled token, NaN where the mask is 0. [T]; a new array at each call. */
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

  /** The images of the prompt and the observations, in order; their tokens have mask 0. */
  get images(): readonly PlacedImage[] {
    return this.#images;
  }

  /** Number of tokens of the prompt; 0 before it is appended. */
  get promptLength(): number {
    const first = this.#segments[0];
    return first?.kind === 'prompt' ? first.end : 0;
  }

  /**
   * Appends tokens that the policy did not sample, with mask 0: the prompt (once, first), a prefill or an observation.
   * @param images those among `ids`, with offsets in `ids`. @default none
   */
  appendGiven(kind: Exclude<SegmentKind, 'model'>, ids: Int32Array, images: readonly PlacedImage[] = []): void {
    const start = this.#grow(ids.length);
    for (const image of images) this.#images.push({ ...image, offset: start + image.offset });
    this.#ids.set(ids, start);
    this.#segments.push({ kind, start, end: this.#length, version: null });
  }

  /**
   * Appends the sampled tokens through the one that completes the first `keptChars` characters (UTF-16 units of `text`) and drops the rest, including
   * tokens without text after it, such as the end-of-turn token. With `keepsEnd`, all tokens are kept if the whole text is kept. Throws
   * NumericPolicyError if the log-prob of a kept token is not finite, because such a rollout cannot be trained on.
   * @param version the one that sampled it, unless the sample has versions of its own
   * @param options `keepsEnd`: false by default
   */
  commit(sample: SampledTokens, keptChars: number, version: number, { keepsEnd = false } = {}): CommittedTokens {
    const isWhole = keptChars >= sample.text.length;
    const count = isWhole && keepsEnd ? sample.ids.length : countThrough(sample, keptChars);
    this.#appendSampled(sample, 0, count, version);
    const end = count === 0 ? 0 : sample.textEnds[count - 1]!;
    const overhang = end <= keptChars ? '' : (sample.text + sample.tail).slice(keptChars, end);
    return { tokens: count, overhang, isWhole: count === sample.ids.length };
  }

  /**
   * Appends the rest of a sample whose whole text `commit` kept: the end-of-turn token. Must directly follow that `commit`, which appended `committed`
   * tokens. Returns the number of appended tokens.
   */
  commitEnd(sample: SampledTokens, committed: number, version: number): number {
    this.#appendSampled(sample, committed, sample.ids.length, version);
    return sample.ids.length - committed;
  }

  #appendSampled(sample: SampledTokens, from: number, to: number, version: number): void {
    assertFiniteLogProbs(sample, from, to);
    const count = to - from;
    const start = this.#grow(count);
    this.#ids.set(sample.ids.subarray(from, to), start);
    this.#sampledLogProbs = withRoom(this.#sampledLogProbs, this.#sampled + count, (capacity) => new Float64Array(capacity));
    this.#sampledLogProbs.set(sample.logProbs.subarray(from, to), this.#sampled);
    this.#sampled += count;
    const own = sample.versions === undefined ? [{ version, tokens: count }] : spansBetween(sample.versions, from, to);
    const last = this.#segments.at(-1);
    // A sample is one segment, whichever versions sampled it: texts are paired with segments by their place.
    if (from > 0 && last?.kind === 'model' && last.end === start) {
      const before = last.versions ?? [{ version: last.version!, tokens: start - last.start }];
      this.#segments.splice(-1, 1, modelSegment(last.start, this.#length, [...before, ...own], version));
    } else this.#segments.push(modelSegment(start, this.#length, own, version));
  }

  #grow(count: number): number {
    const start = this.#length;
    this.#length += count;
    this.#ids = withRoom(this.#ids, this.#length, (capacity) => new Int32Array(capacity));
    return start;
  }
}

function modelSegment(start: number, end: number, spans: readonly VersionSpan[], version: number): TokenSegment {
  const versions = joinedSpans(spans);
  const oldest = versions.length === 0 ? version : Math.min(...versions.map((span) => span.version));
  return { kind: 'model', start, end, version: oldest, ...(versions.length > 1 ? { versions } : {}) };
}

/** Throws NumericPolicyError if the log-prob of one of the tokens [from, to) is not finite, because such a rollout cannot be trained on. */
export function assertFiniteLogProbs({ ids, logProbs }: Pick<SampledTokens, 'ids' | 'logProbs'>, from = 0, to = ids.length): void {
  for (let i = from; i < to; i++) {
    if (Number.isFinite(logProbs[i])) continue;
    throw new NumericPolicyError(
      `The policy server returned log-prob ${logProbs[i]} for sampled token ${i} (id ${ids[i]}), which is not finite. ` +
        'Check its adapter, and restart the server if this persists.',
    );
  }
}

/** Number of tokens through the one that completes the first `keptChars` characters; 0 for 0 characters. */
export function countThrough({ ids, textEnds }: Pick<SampledTokens, 'ids' | 'textEnds'>, keptChars: number): number {
  if (keptChars <= 0) return 0;
  let count = 0;
  while (count < ids.length && textEnds[count]! < keptChars) count++;
  return Math.min(count + 1, ids.length);
}

/** The array itself if it is long enough, else a longer copy, at least 1.5 times as long so that appending takes linear time. */
function withRoom<A extends Int32Array | Float64Array>(array: A, length: number, allocate: (capacity: number) => A): A {
  if (length <= array.length) return array;
  const grown = allocate(Math.max(length, Math.ceil(array.length * 1.5), 64));
  grown.set(array);
  return grown;
}
