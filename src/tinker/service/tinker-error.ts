import { VfError, type VfErrorOptions } from '../../core/errors.ts';

/** A training service refused a request, did not answer in time, or answered something unusable. */
export class TinkerError extends VfError {
  override readonly name = 'TinkerError';
  /** The session, or the model, is gone at the service, with its weights: only a new one can continue. */
  readonly isGone: boolean;

  constructor(message: string, options: VfErrorOptions & { readonly isGone?: boolean } = {}) {
    super(message, options);
    this.isGone = options.isGone ?? false;
  }
}

/** Tells whether the service has no such route. A 404 for weights that expired or were lost names them. */
export function lacksRoute({ status, message }: TinkerError): boolean {
  return status === 405 || (status === 404 && !/checkpoint not found|no checkpoint/i.test(message));
}
