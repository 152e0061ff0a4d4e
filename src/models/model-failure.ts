/** The boundary of models by role: whatever their servers, policies and code throw becomes a ModelError; a cancelled call stays one. */
import { CancelledError, ModelError, thrownText, VfError } from '../core/errors.ts';

/** `tried`: requests sent before it was given up. */
export function modelFailure(
  thrown: unknown,
  { role, model, tried, signal }: { readonly role: string; readonly model: string; readonly tried: number; readonly signal: AbortSignal },
): ModelError | CancelledError {
  if (thrown instanceof ModelError || thrown instanceof CancelledError) return thrown;
  // A rollout's own deadline may surface as the reason of its signal: nothing that the model did.
  if (signal.aborted) return new CancelledError(`Stopped before the model of role ${role} answered`, { cause: signal.reason });
  const after = tried > 1 ? ` after ${tried} attempts` : '';
  const text = `The model of role ${role} (${model}) failed${after}: ${thrownText(thrown)}`;
  if (!(thrown instanceof VfError)) return new ModelError(text, { role, cause: thrown });
  const { retryable, retryAfterMs, status } = thrown;
  const failure = new ModelError(text, {
    role,
    cause: thrown,
    retryable,
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
    ...(status === null ? {} : { status }),
  });
  // The role's own retries are all there are: no rollout is played or scored again for it.
  failure.isRetriedOut = tried > 1 || thrown.isRetriedOut;
  return failure;
}
