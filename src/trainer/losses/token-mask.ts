/**
 * Which tokens are trained. A step's sequences (one trajectory each, never split) are concatenated in flat arrays. The mask is 1 on tokens that
 * the policy sampled and 0 on prompts, observations and dropped tokens. Masked tokens enter no formula: their values, NaN included, affect neither
 * loss nor gradient.
 */

/** Boundaries of the sequences, and which of their tokens count. */
export interface TokenLayout {
  /** Start of each sequence, then the end of the last one. [B + 1], from 0, never decreasing. */
  readonly offsets: Int32Array;
  /** 1 on trained tokens, 0 elsewhere. [N] */
  readonly mask: Uint8Array;
}

/** Sizes of one whole optimiser step, known before its first gradient: losses are divided by these, however the step is split. */
export interface TokenCounts {
  /** Trained tokens. */
  readonly tokens: number;
  /** Sequences, those without a trained token included. */
  readonly sequences: number;
  /** Sequences with at least one trained token. */
  readonly trainedSequences: number;
}

export function countTokens(layout: TokenLayout): TokenCounts {
  const { starts } = trainedTokens(layout);
  const sequences = starts.length - 1;
  let trainedSequences = 0;
  for (let i = 0; i < sequences; i++) if (starts[i + 1]! > starts[i]!) trainedSequences++;
  return { tokens: starts[sequences]!, sequences, trainedSequences };
}

/** Sums the counts of a step's parts. */
export function sumCounts(parts: readonly TokenCounts[]): TokenCounts {
  const sum = (key: keyof TokenCounts) => parts.reduce((total, part) => total + part[key], 0);
  return { tokens: sum('tokens'), sequences: sum('sequences'), trainedSequences: sum('trainedSequences') };
}

/** The trained tokens of all sequences. Only this code reads the mask, so that no formula can forget it. */
export interface TrainedTokens {
  /** Their indices in the flat arrays, ascending. */
  readonly positions: Int32Array;
  /** Sequence i has `positions[starts[i]]` up to, not including, `positions[starts[i + 1]]`. [B + 1] */
  readonly starts: Int32Array;
}

export function trainedTokens({ offsets, mask }: TokenLayout): TrainedTokens {
  const sequences = offsets.length - 1;
  const positions = new Int32Array(mask.length + 1);
  const starts = new Int32Array(sequences + 1);
  let count = 0;
  for (let i = 0; i < sequences; i++) {
    const end = offsets[i + 1]!;
    for (let t = offsets[i]!; t < end; t++) {
      // Branchless, because a random mask defeats branch prediction: the next token overwrites a masked token's entry.
      positions[count] = t;
      count += mask[t]! & 1;
    }
    starts[i + 1] = count;
  }
  return { positions: positions.subarray(0, count), starts };
}

/** Throws if `counts` cannot be those of the whole step, because the part with these `starts` has more. */
export function checkCounts(starts: TrainedTokens['starts'], counts: TokenCounts): void {
  const [tokens, sequences] = [starts.at(-1)!, starts.length - 1];
  if (tokens <= counts.tokens && sequences <= counts.sequences) return;
  throw new RangeError(
    `counts must cover the whole step, but this part alone has ${tokens} trained tokens and ${sequences} sequences; got ${JSON.stringify(counts)}`,
  );
}

/** One number per sequence, repeated over its tokens. [B] → [N] */
export function broadcastOverTokens(perSequence: ArrayLike<number>, offsets: Int32Array): Float64Array {
  if (perSequence.length !== offsets.length - 1) {
    throw new RangeError(`There are ${offsets.length - 1} sequences, but ${perSequence.length} values`);
  }
  const perToken = new Float64Array(offsets.at(-1)!);
  for (let i = 0; i < perSequence.length; i++) perToken.fill(perSequence[i]!, offsets[i], offsets[i + 1]);
  return perToken;
}

/** Excludes whole sequences from the loss, such as truncated ones (overlong filtering, DAPO, arXiv 2503.14476). Their group's statistics still include them. */
export function maskSequences({ offsets, mask }: TokenLayout, isDropped: (sequence: number) => boolean): Uint8Array {
  const kept = mask.slice();
  for (let i = 0; i < offsets.length - 1; i++) if (isDropped(i)) kept.fill(0, offsets[i], offsets[i + 1]);
  return kept;
}

/**
 * Excludes tokens whose sampling log-prob is unusable: not finite, or vLLM's stand-in for minus infinity (-9999), which would give a ratio of
 * e^9999.
 */
export function maskUnusableLogProbs(
  mask: Uint8Array,
  logProbs: Float64Array,
  floor = -9998,
): { readonly mask: Uint8Array; readonly dropped: number } {
  const kept = mask.slice();
  let dropped = 0;
  for (let t = 0; t < kept.length; t++) {
    const logProb = logProbs[t]!;
    if (kept[t] === 0 || (logProb > floor && logProb < Infinity)) continue;
    kept[t] = 0;
    dropped++;
  }
  return { mask: kept, dropped };
}
