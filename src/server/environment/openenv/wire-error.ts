/** An error in OpenEnv's protocol: a code that clients know, and a message with the cause and the remedy. */
import { CancelledError, ConfigError, VfError, type VfErrorOptions } from '../../../core/errors.ts';
import type { CapacityColumns, WireErrorCode } from '../../../schemas/environment-server/openenv.ts';
import { EnvironmentRefusal, type RefusalStatus } from '../environment-refusal.ts';

export class WireError extends VfError {
  override readonly name = 'WireError';
  readonly code: WireErrorCode;
  readonly capacity: CapacityColumns | null;

  constructor(code: WireErrorCode, message: string, options: VfErrorOptions & { readonly capacity?: CapacityColumns } = {}) {
    super(message, options);
    this.code = code;
    this.capacity = options.capacity ?? null;
  }

  /** As the `data` of an error frame. */
  get data(): object {
    return { message: this.message, code: this.code, ...this.capacity };
  }

  /** As the answer to an HTTP request. */
  get refusal(): EnvironmentRefusal {
    return new EnvironmentRefusal(STATUSES[this.code], this.message, { cause: this });
  }
}

const STATUSES: Readonly<Record<WireErrorCode, RefusalStatus>> = {
  INVALID_JSON: 422,
  UNKNOWN_TYPE: 422,
  VALIDATION_ERROR: 422,
  EXECUTION_ERROR: 424,
  CAPACITY_REACHED: 503,
  FACTORY_ERROR: 422,
  SESSION_ERROR: 503,
};

/** Converts anything that was thrown; null for a failure of the server itself. */
export function wireErrorOf(error: unknown): WireError | null {
  if (error instanceof WireError) return error;
  const cause = { cause: error };
  if (error instanceof EnvironmentRefusal && error.status === 503) return new WireError('CAPACITY_REACHED', error.message, cause);
  if (error instanceof EnvironmentRefusal && error.status === 422) return new WireError('VALIDATION_ERROR', error.message, cause);
  if (error instanceof ConfigError) return new WireError('FACTORY_ERROR', error.message, cause);
  if (error instanceof CancelledError) return new WireError('SESSION_ERROR', 'The server is stopping.', cause);
  return null;
}
