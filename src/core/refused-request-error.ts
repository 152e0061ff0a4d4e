/** The policy's server refused what a request asks for, such as a value that it does not take. Recorded as its base class. */
import { PolicyError, type VfErrorOptions } from './errors.ts';

export class RefusedRequestError extends PolicyError {
  /** The field of the request that the server names; null if it names none. */
  readonly param: string | null;
  /** In the words of the server. `message` has its address too. */
  readonly reason: string;

  constructor(message: string, { param, reason, ...options }: VfErrorOptions & { readonly param: string | null; readonly reason: string }) {
    super(message, options);
    this.param = param;
    this.reason = reason;
  }
}
