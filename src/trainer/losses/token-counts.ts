/**
 * Sizes of an optimiser step. The sequences of a batch (one trajectory each, never split) are concatenated in flat arrays that hold the trained tokens alone:
 * prompts, observations and dropped tokens are left out before a loss is evaluated, so no formula can read them.
 */
import type { TokenCounts, TokenLossBatch } from '../token-loss.ts';

/** @param offsets start of each sequence, then the end of the last one. [B + 1], from 0, never decreasing */
export function countTokens(offsets: Int32Array, roles?: readonly string[]): TokenCounts {
  const sequences = offsets.length - 1;
  const lengths = Array.from({ length: sequences }, (_, i) => offsets[i + 1]! - offsets[i]!);
  return countLengths(lengths, roles);
}

/** Returns the counts, given the number of trained tokens of each sequence; of roles, given the role of each. */
export function countLengths(lengths: readonly number[], roles?: readonly string[]): TokenCounts {
  const tokensByRole = new Map<string, number>();
  for (const [i, role] of (roles ?? []).entries()) tokensByRole.set(role, (tokensByRole.get(role) ?? 0) + lengths[i]!);
  return {
    tokens: lengths.reduce((sum, length) => sum + length, 0),
    sequences: lengths.length,
    trainedSequences: lengths.filter((length) => length > 0).length,
    ...(roles === undefined ? {} : { tokensByRole }),
  };
}

/** Throws if the offsets are not those of the tokens, or if `counts` cannot be those of the whole step because this part alone has more. */
export function checkLayout({ offsets, logProbs: { length: tokens }, lengths }: Layout, counts: TokenCounts): void {
  if (offsets[0] !== 0 || offsets.at(-1) !== tokens || offsets.some((start, i) => i > 0 && start < offsets[i - 1]!)) {
    throw new RangeError(`offsets must rise from 0 to the number of tokens, ${tokens}, got ${offsets.slice(0, 8).join(', ')}`);
  }
  const sequences = offsets.length - 1;
  const short = lengths === undefined ? -1 : Array.from({ length: sequences }).findIndex((_, i) => !(lengths[i]! >= offsets[i + 1]! - offsets[i]!));
  if (short >= 0)
    throw new RangeError(`lengths[${short}] is ${lengths![short]}, but the sequence has ${offsets[short + 1]! - offsets[short]!} tokens`);
  // Branches of one rollout count as one sequence.
  if (tokens <= counts.tokens && (sequences <= counts.sequences || lengths !== undefined)) return;
  throw new RangeError(
    `counts must cover the whole step, but this part alone has ${tokens} tokens and ${sequences} sequences; got ${counts.tokens} and ${counts.sequences}`,
  );
}

type Layout = Pick<TokenLossBatch, 'offsets' | 'logProbs' | 'lengths'>;

/** Trained tokens of what a sequence counts as: its own, or those of its rollout over all of its branches. */
export function lengthOf({ offsets, lengths }: Pick<TokenLossBatch, 'offsets' | 'lengths'>, sequence: number): number {
  return lengths?.[sequence] ?? offsets[sequence + 1]! - offsets[sequence]!;
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
