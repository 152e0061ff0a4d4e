/**
 * What nothing catches although it is expected: an agent that does not await a call hears of the refusal after its rollout has ended, or of the abort, and its framework turns
 * either into an unhandled rejection. The rollout has what it needs, so the run goes on.
 */
import { AgentRefusal, GATEWAY_HEADER } from '../agents/agent-refusal.ts';
import { CancelledError, thrownText, TimeoutError } from '../core/errors.ts';
import { thrownPlace } from '../core/thrown-place.ts';
import { isObject } from '../schemas/is-object.ts';

export class UncaughtRefusals {
  #count = 0;

  /** Counts the error; null if it is another one. Otherwise the first has a line for the user, and later ones have none (`''`). */
  add(error: unknown): string | null {
    const cause = causesOf(error).find(isExpected);
    if (cause === undefined) return null;
    this.#count += 1;
    if (this.#count > 1) return '';
    const place = error instanceof Error ? thrownPlace(error.stack) : null;
    const said = thrownText(cause);
    const end = /[.!?]$/.test(said) ? '' : '.';
    return `an agent did not catch what a request of it got: ${said}${end} The run goes on. Await every call before the agent returns${place === null ? '' : ` (${place})`}`;
  }

  /** A line for the end of the command; null if nothing is left to tell. */
  get total(): string | null {
    return this.#count > 1 ? `agents did not catch the refusal or the abort of ${this.#count} requests; these requests are in no rollout` : null;
  }
}

/** The error and what it holds: its cause, and the attempts of a client that tried again. */
function causesOf(error: unknown): readonly unknown[] {
  const found: unknown[] = [error];
  for (let i = 0; i < found.length && found.length < MOST_CAUSES; i++) {
    const { cause, errors } = (isErrorLike(found[i]) ? found[i] : {}) as { readonly cause?: unknown; readonly errors?: unknown };
    found.push(...[cause, ...(Array.isArray(errors) ? errors : [])].filter(isErrorLike));
  }
  return found;
}

const MOST_CAUSES = 32;

function isErrorLike(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isExpected(error: unknown): boolean {
  return error instanceof AgentRefusal || isOfGateway(error) || isAbort(error) || (error instanceof Error && ENDED.test(error.message));
}

/** The packages of OpenAI and Anthropic keep the headers of an answer as `Headers`, the AI SDK as an object. */
function isOfGateway(error: unknown): boolean {
  if (!isErrorLike(error)) return false;
  const { headers, responseHeaders } = error as { readonly headers?: unknown; readonly responseHeaders?: unknown };
  return (headers instanceof Headers && headers.has(GATEWAY_HEADER)) || (isObject(responseHeaders) && Object.hasOwn(responseHeaders, GATEWAY_HEADER));
}

function isAbort(error: unknown): boolean {
  if (error instanceof CancelledError || error instanceof TimeoutError) return true;
  return error instanceof Error && (error.name === 'AbortError' || error.constructor.name === 'APIUserAbortError');
}

/** A client of one's own may throw the text of an answer. */
const ENDED = /The rollout has ended\b[^.]*, so the policy answers no further request of it\./;
