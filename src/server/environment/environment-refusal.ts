/** A refused request, as `{error: {type, message}}`. */
import { CancelledError, ConfigError, PolicyError, VfError, type VfErrorOptions } from '../../core/errors.ts';
import { withoutQuotations } from '../../transport/quotes.ts';

export type RefusalStatus = 400 | 401 | 403 | 404 | 405 | 408 | 409 | 413 | 415 | 422 | 424 | 500 | 502 | 503;

export class EnvironmentRefusal extends VfError {
  override readonly name = 'EnvironmentRefusal';
  override readonly status: RefusalStatus;

  constructor(status: RefusalStatus, message: string, options: VfErrorOptions = {}) {
    super(message, { retryable: status === 503, ...options });
    this.status = status;
  }

  get body() {
    return { error: { type: TYPES[this.status], message: this.message } };
  }
}

const TYPES: Readonly<Record<RefusalStatus, string>> = {
  400: 'BadRequestError',
  401: 'AuthenticationError',
  403: 'PermissionDeniedError',
  404: 'NotFoundError',
  405: 'MethodNotAllowedError',
  408: 'RequestTimeoutError',
  409: 'ConflictError',
  413: 'RequestTooLargeError',
  415: 'UnsupportedMediaTypeError',
  422: 'ValidationError',
  424: 'EpisodeError',
  500: 'InternalServerError',
  502: 'PolicyError',
  503: 'OverloadedError',
};

/** Converts anything that was thrown. */
export function refusalOf(error: unknown): EnvironmentRefusal {
  if (error instanceof EnvironmentRefusal) return error;
  const cause = { cause: error };
  if (error instanceof ConfigError) return new EnvironmentRefusal(422, withoutQuotations(error.message), cause);
  if (error instanceof CancelledError) return new EnvironmentRefusal(503, 'The server is stopping', cause);
  if (error instanceof PolicyError) return new EnvironmentRefusal(502, withoutQuotations(error.message), cause);
  return new EnvironmentRefusal(500, 'Internal Server Error', cause);
}
