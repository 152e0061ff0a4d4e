/** A request that the server refuses at once, as `{detail}`; and what a future answers whose work failed, as `{error, category}`. */
import { CancelledError, ConfigError, GradientError, VfError, type VfErrorOptions } from '../../core/errors.ts';
import { EngineBusyError, EngineInputError, MemoryLimitError, NotFiniteError } from '../../engine/engine-errors.ts';
import { WireError } from '../../tinker/wire/wire-error.ts';

export type TinkerStatus = 400 | 401 | 403 | 404 | 408 | 409 | 410 | 413 | 415 | 422 | 429 | 500 | 503;

export class TinkerRefusal extends VfError {
  override readonly name = 'TinkerRefusal';
  override readonly status: TinkerStatus;

  constructor(status: TinkerStatus, message: string, options: VfErrorOptions = {}) {
    super(message, options);
    this.status = status;
  }
}

export interface FutureFailure {
  readonly error: string;
  /** `user`: the same request would fail again. */
  readonly category: 'user' | 'server';
}

/** What a caller is told of an error, and whether it is the caller's own. Null for what only the operator of the server should see. */
export function failureOf(error: unknown): FutureFailure | null {
  if (error instanceof TinkerRefusal) return { error: error.message, category: error.status < 500 ? 'user' : 'server' };
  if (error instanceof WireError || error instanceof EngineInputError || error instanceof ConfigError || error instanceof MemoryLimitError)
    return { error: error.message, category: 'user' };
  if (error instanceof GradientError)
    return { error: error.message, category: ['bad_input', 'not_finite', 'out_of_memory'].includes(error.code) ? 'user' : 'server' };
  if (error instanceof NotFiniteError) return { error: error.message, category: 'user' };
  if (error instanceof EngineBusyError || error instanceof CancelledError) return { error: error.message, category: 'server' };
  return null;
}

/** The status with which a request is refused that could not become a future. */
export function refusalOf(error: unknown): TinkerRefusal {
  if (error instanceof TinkerRefusal) return error;
  const failure = failureOf(error);
  if (failure === null) return new TinkerRefusal(500, 'The server failed; its operator finds the reason in its log', { cause: error });
  return new TinkerRefusal(failure.category === 'user' ? 400 : 503, failure.error, { cause: error });
}
