/**
 * Which tokens are trained. A step's sequences (one trajectory each, never split) lie one after another in flat arrays; the mask is 1 on
 * tokens that the policy sampled and 0 on prompts, observations and whatever was dropped. A masked token enters no formula: whatever
 * stands at its place, NaN included, changes neither loss nor gradient.
 */

/** Where the sequences lie, and which of their tokens count. */
export interface TokenLayout {
  /** Where each sequence starts, then where the last one ends. [B + 1], from 0, never decreasing. */
  readonly offsets: Int32Array;
  /** 1 on trained tokens, 0 elsewhere. [N] */
  readonly mask: Uint8Array;
}

/** Sizes of one whole optimiser step, known before its first gradient: every loss is divided by these, however the step is split. */
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

/** The counts of a step from those of its parts. */
export function sumCounts(parts: readonly TokenCounts[]): TokenCounts {
  const sum = (key: keyof TokenCounts) => parts.reduce((total, part) => total + part[key], 0);
  return { tokens: sum('tokens'), sequences: sum('sequences'), trainedSequences: sum('trainedSequences') };
}

/** The trained tokens of all sequences: the one place that reads the mask, so that no formula can forget it. */
export interface TrainedTokens {
  /** Where they stand in the flat arrays, ascending. */
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
      // Without a branch, which a random mask would mispredict: a masked token's entry is overwritten by the next.
      positions[count] = t;
      count += mask[t]! & 1;
    }
    starts[i + 1] = count;
  }
  return { positions: positions.subarray(0, count), starts };
}

/** Throws where `counts` cannot be those of the whole step: fewer than the part with these `starts` of trained tokens has. */
export function checkCounts(starts: TrainedTokens['starts'], counts: TokenCounts): void {
  const [tokens, sequences] = [starts.at(-1)!, starts.length - 1];
  if (tokens <= counts.tokens && sequences <= counts.sequences) return;
  throw new RangeError(
    `Expected counts of the whole step, at least the ${tokens} trained tokens and ${sequences} sequences of this part, got ${JSON.stringify(counts)}`,
  );
}

/** One number per sequence, repeated over its tokens. [B] → [N] */
export function broadcastOverTokens(perSequence: ArrayLike<number>, offsets: Int32Array): Float64Array {
  if (perSequence.length !== offsets.length - 1) {
    throw new RangeError(`Expected one value for each of ${offsets.length - 1} sequences, got ${perSequence.length}`);
  }
  const perToken = new Float64Array(offsets.at(-1)!);
  for (let i = 0; i < perSequence.length; i++) perToken.fill(perSequence[i]!, offsets[i], offsets[i + 1]);
  return perToken;
}

/** Takes whole sequences out of the loss: truncated ones (overlong filtering, DAPO, arXiv 2503.14476). Their group's statistics still hold them. */
export function maskSequences({ offsets, mask }: TokenLayout, isDropped: (sequence: number) => boolean): Uint8Array {
  const kept = mask.slice();
  for (let i = 0; i < offsets.length - 1; i++) if (isDropped(i)) kept.fill(0, offsets[i], offsets[i + 1]);
  return kept;
}

/**
 * Takes tokens out whose sampling log-prob is unusable: not finite, or at vLLM's stand-in for minus infinity (-9999). One of them would
 * be a ratio of e^9999.
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
