/** Turns errors of a role's server, policy or code into a ModelError; a CancelledError stays one. */
import { CancelledError, ModelError, thrownText, VfError } from '../core/errors.ts';

/** `tried`: number of requests that were sent. */
export function modelFailure(
  thrown: unknown,
  { role, model, tried, signal }: { readonly role: string; readonly model: string; readonly tried: number; readonly signal: AbortSignal },
): ModelError | CancelledError {
  if (thrown instanceof ModelError || thrown instanceof CancelledError) return thrown;
  // The reason may be the rollout's own deadline, which is not the model's failure.
  if (signal.aborted) return new CancelledError(`Stopped before the model of role ${role} answered`, { cause: signal.reason });
  const after = tried > 1 ? ` after ${tried} attempts` : '';
  const text = `The model of role ${role} (${model}) failed${after}: ${thrownText(thrown)}`;
  if (!(thrown instanceof VfError)) return new ModelError(text, { role, cause: thrown });
  const { retryable, retryAfterMs, status, endsRun } = thrown;
  const failure = new ModelError(text, {
    role,
    cause: thrown,
    retryable,
    endsRun,
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
    ...(status === null ? {} : { status }),
  });
  // The role has used all of its retries, even if it has none, so the rollout must not be played or scored again.
  failure.isRetriedOut = retryable || thrown.isRetriedOut;
  return failure;
}
