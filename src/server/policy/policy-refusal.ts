/** A refused request, with vLLM's error body: `{error: {message, type, param, code}}`. */
import { CancelledError, ConfigError, VfError, type VfErrorOptions } from '../../core/errors.ts';
import { EngineBusyError, EngineInputError, EngineLostError, MemoryLimitError, NotFiniteError } from '../../engine/engine-errors.ts';
import { TokenizerError } from '../../tokenizer/tokenizer-error.ts';
import type { RequestProblem } from '../../schemas/policy-server/request-problem.ts';

export type RefusalStatus = 400 | 401 | 403 | 404 | 408 | 413 | 500 | 503;

export class PolicyRefusal extends VfError {
  override readonly name = 'PolicyRefusal';
  override readonly status: RefusalStatus;
  /** vLLM's name of the error. */
  readonly type: string;
  readonly param: string | null;

  constructor(status: RefusalStatus, message: string, options: VfErrorOptions & { readonly type?: string; readonly param?: string | null } = {}) {
    super(message, options);
    this.status = status;
    this.type = options.type ?? TYPES[status];
    this.param = options.param ?? null;
  }

  get body() {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.status } };
  }

  /** True for a fault of the server that its operator should look at. */
  get isFailure(): boolean {
    return this.status === 500 || this.cause instanceof EngineLostError || this.cause instanceof NotFiniteError;
  }
}

const TYPES: Readonly<Record<RefusalStatus, string>> = {
  400: 'BadRequestError',
  401: 'AuthenticationError',
  403: 'PermissionDeniedError',
  404: 'NotFoundError',
  408: 'RequestTimeoutError',
  413: 'RequestEntityTooLargeError',
  500: 'InternalServerError',
  503: 'ServiceUnavailableError',
};

export function problemRefusal({ message, param, type }: RequestProblem): PolicyRefusal {
  return new PolicyRefusal(400, message, { param, type });
}

/** Refuses an invalid value, in vLLM's form. */
export function valueRefusal(param: string, message: string, value: number): PolicyRefusal {
  return new PolicyRefusal(400, `${message} (parameter=${param}, value=${value})`, { param });
}

/** Converts any thrown error. */
export function refusalOf(error: unknown): PolicyRefusal {
  if (error instanceof PolicyRefusal) return error;
  const cause = { cause: error };
  if (error instanceof EngineInputError) {
    const param = error.param ?? (error.code === 'too_long' ? 'input_tokens' : null);
    return new PolicyRefusal(error.code === 'not_found' ? 404 : 400, error.message, { ...cause, param });
  }
  if (error instanceof TokenizerError) return new PolicyRefusal(400, error.message, { ...cause, param: error.param });
  if (error instanceof EngineBusyError) return new PolicyRefusal(503, error.message, { ...cause, retryable: true });
  // vLLM's wording, by which clients recognize that a retry would fail too.
  if (error instanceof NotFiniteError) return new PolicyRefusal(400, `Out of range float values are not JSON compliant: ${error.message}`, cause);
  if (error instanceof EngineLostError) return new PolicyRefusal(503, `EngineCore encountered an issue: ${error.message}`, cause);
  if (error instanceof CancelledError) return new PolicyRefusal(503, 'The server is stopping', cause);
  if (error instanceof MemoryLimitError || error instanceof ConfigError) return new PolicyRefusal(500, error.message, cause);
  return new PolicyRefusal(500, 'Internal Server Error', cause);
}
