/** The pace at which a server is searched: how often, how long, how many times. The user sets it, for any engine that sends requests. */
import { type ArgumentKind, type ArgumentValues, integerArgument } from '../core/environment-arguments.ts';
import { rateLimited } from '../retrieval/rate-limited.ts';
import type { Retriever } from '../retrieval/retriever.ts';

export interface SearchPace {
  /** Searches that may start in a second; cached ones do not count, and further ones wait. @default no limit */
  readonly perSecond?: number;
  /** Deadline of one attempt. @default the engine's own: 20 s for web engines, 60 s for servers and modules */
  readonly timeoutMs?: number;
  /** Attempts beyond the first. @default 4 */
  readonly maxRetries?: number;
}

const above: ArgumentKind<number> = { expected: 'a number above 0', accepts: (v): v is number => Number.isFinite(v) && (v as number) > 0 };

/** The pace as arguments of an environment. */
export const PACE_ARGUMENTS = { search_per_second: above, search_timeout_s: above, search_retries: integerArgument(0) } as const;

/** The pace that arguments set; empty if they set none. */
export function paceOf(given: ArgumentValues<typeof PACE_ARGUMENTS>): SearchPace {
  const { search_per_second: perSecond, search_timeout_s: timeoutS, search_retries: maxRetries } = given;
  return {
    ...(perSecond === undefined ? {} : { perSecond }),
    ...(timeoutS === undefined ? {} : { timeoutMs: timeoutS * 1000 }),
    ...(maxRetries === undefined ? {} : { maxRetries }),
  };
}

/** The deadline and the retries, for a client that counts them itself. */
export function requestsOf({ timeoutMs, maxRetries }: SearchPace): Pick<SearchPace, 'timeoutMs' | 'maxRetries'> {
  return { ...(timeoutMs === undefined ? {} : { timeoutMs }), ...(maxRetries === undefined ? {} : { maxRetries }) };
}

/** The pace among other options. */
export function paceIn({ perSecond, ...others }: SearchPace): SearchPace {
  return { ...requestsOf(others), ...(perSecond === undefined ? {} : { perSecond }) };
}

/** With the rate limit, if there is one. */
export function spaced(retriever: Retriever, { perSecond = Infinity }: SearchPace): Retriever {
  return perSecond === Infinity ? retriever : rateLimited(retriever, { perSecond });
}
