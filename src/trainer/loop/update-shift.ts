/**
 * How far an update moved the policy: the log-probs of sequences of its own batch, before and after it. An ordinary update changes them by a fraction of a nat per token; one
 * with a learning rate that is far too high makes the texts that the policy has just written, or was shown, all but impossible.
 */
import type { TrainingSequence } from '../credit.ts';
import { logProbPass, type PassOptions } from '../gradients/log-prob-pass.ts';

export interface MeasuredSequence {
  readonly sequence: Pick<TrainingSequence, 'ids' | 'targets' | 'images'>;
  /** [M] */
  readonly logProbs: Float64Array;
}

/** The shortest sequences are measured again, as many as have this many tokens together; at least one, at most eight. */
const MOST_TOKENS = 2048;
const MOST_SEQUENCES = 8;

/** Mean log π per token before and after the update, in nats; empty if there is nothing to measure. */
export async function updateShift(before: readonly MeasuredSequence[], pass: PassOptions): Promise<Readonly<Record<string, number | null>>> {
  const measured = shortest(before);
  if (measured.length === 0) return {};
  const after = await logProbPass(
    measured.map(({ sequence }) => sequence),
    'on',
    pass,
  );
  return { update_log_prob_before: meanOf(measured.map(({ logProbs }) => logProbs)), update_log_prob_after: meanOf(after) };
}

function shortest(before: readonly MeasuredSequence[]): MeasuredSequence[] {
  const ordered = before.toSorted((a, b) => a.sequence.ids.length - b.sequence.ids.length);
  let tokens = 0;
  return ordered.slice(0, MOST_SEQUENCES).filter(({ sequence }, i) => (tokens += sequence.ids.length) <= MOST_TOKENS || i === 0);
}

/** Null if one is not finite. */
function meanOf(logProbs: readonly Float64Array[]): number | null {
  const tokens = logProbs.reduce((sum, { length }) => sum + length, 0);
  const mean = logProbs.reduce((sum, values) => sum + values.reduce((total, value) => total + value, 0), 0) / tokens;
  return Number.isFinite(mean) ? mean : null;
}
