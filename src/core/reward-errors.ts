/** Values and errors of rewards and metrics: a reward that fails throws, a metric that fails has its error in place of a value. */
import { causeText, RewardError, VfError } from './errors.ts';
import { returnedText } from './returned-text.ts';

interface NamedWeight {
  readonly name: string;
  readonly weight: number;
}

function kindOf({ weight }: NamedWeight): string {
  return weight === 0 ? 'Metric' : 'Reward';
}

export function finite(term: NamedWeight, value: number): number {
  if (Number.isFinite(value)) return value;
  throw new RewardError(
    `${kindOf(term)} "${term.name}" gave ${returnedText(value)}, which is not a finite number. Return a number for every rollout.`,
    { isOfCode: true },
  );
}

/** The error of a metric, which replaces its value. Throws the error of a reward, and one that ends the run, such as a wrong key. */
export function metricError(term: NamedWeight, cause: unknown): RewardError {
  const error = rewardError(term, cause);
  if (term.weight === 0 && !error.endsRun) return error;
  throw error;
}

/** Includes the causes in its message, because a server's own error explains an outage best. Retryable if the cause is. */
function rewardError(term: NamedWeight, cause: unknown): RewardError {
  if (cause instanceof RewardError) return cause;
  // Our own messages are complete; those of others often need their class name.
  const thrownClass = cause instanceof Error && !(cause instanceof VfError) && cause.name !== 'Error' ? `${cause.name}: ` : '';
  const retryable = cause instanceof VfError && cause.retryable;
  const endsRun = cause instanceof VfError && cause.endsRun;
  const error = new RewardError(`${kindOf(term)} "${term.name}" failed: ${thrownClass}${causeText(cause)}`, { cause, retryable, endsRun });
  error.isRetriedOut = cause instanceof VfError && cause.isRetriedOut;
  return error;
}
