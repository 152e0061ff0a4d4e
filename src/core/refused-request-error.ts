/** The policy's server refused what a request asks for, such as a value or a message that it does not take. Recorded as its base class. */
import { NumericPolicyError, PolicyError, PromptTooLongError, type VfErrorOptions } from './errors.ts';

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

/** True if another request might be answered: neither the key, the account or the server is at fault, as one that computes NaN, nor the length of the prompt. */
export function isRefusedRequest(error: unknown): error is PolicyError {
  if (error instanceof RefusedRequestError) return true;
  if (!(error instanceof PolicyError) || error instanceof PromptTooLongError || error instanceof NumericPolicyError) return false;
  return error.status === 400 && !error.endsRun;
}

/** What the server said of the request, without its address where that is known. */
export function refusalReason(error: PolicyError): string {
  return error instanceof RefusedRequestError ? error.reason : error.message;
}
