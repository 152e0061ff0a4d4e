/** Batches with a mask, as upstream and torch have them, in the form of the losses, which hold the trained tokens alone. */
import { countTokens } from '../../src/trainer/losses/token-counts.ts';
import type { TokenCounts, TokenLossBatch } from '../../src/trainer/token-loss.ts';

type Column = 'logProbs' | 'oldLogProbs' | 'advantages' | 'referenceLogProbs' | 'samplerLogProbs';

/** [N] columns of whole sequences; `mask` is 1 on trained tokens. */
export interface MaskedBatch extends Partial<Record<Column, Float64Array>> {
  /** [B + 1] */
  readonly offsets: Int32Array;
  readonly mask: Uint8Array;
  readonly logProbs: Float64Array;
  readonly roles?: readonly string[];
}

export interface Unmasked {
  readonly batch: TokenLossBatch;
  readonly counts: TokenCounts;
  /** Values of the trained tokens at their places in the whole batch, 0 elsewhere. */
  readonly scatter: (values: Float64Array) => Float64Array;
}

const COLUMNS: readonly Column[] = ['logProbs', 'oldLogProbs', 'advantages', 'referenceLogProbs', 'samplerLogProbs'];

export function unmasked(whole: MaskedBatch): Unmasked {
  const { offsets, mask, roles } = whole;
  const kept = [...mask.keys()].filter((t) => mask[t] === 1);
  const own = Int32Array.from(offsets, (offset) => kept.filter((t) => t < offset).length);
  const columns = COLUMNS.flatMap((name) => (whole[name] === undefined ? [] : [[name, Float64Array.from(kept, (t) => whole[name]![t]!)]]));
  const scatter = (values: Float64Array) => {
    const all = new Float64Array(mask.length);
    kept.forEach((t, k) => (all[t] = values[k]!));
    return all;
  };
  const advantages = new Float64Array(kept.length);
  const batch = { advantages, ...Object.fromEntries(columns), offsets: own, ...(roles === undefined ? {} : { roles }) } as TokenLossBatch;
  return { batch, counts: countTokens(own, roles), scatter };
}
