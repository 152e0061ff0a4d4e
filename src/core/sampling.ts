/** Sampling parameters, token counts and the bound of a log-prob. */

/** Sampling parameters. Sent explicitly with every request, so that a server's defaults never apply. */
export interface Sampling {
  /** At least 0; 0 is greedy. */
  readonly temperature: number;
  /** In (0, 1]. Below 1, a trainer cannot reproduce the log-probs. */
  readonly topP: number;
  /** Further fields of the request, passed unchanged (`top_k`, `min_p`, ...). @default none */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Token counts of one call. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens served from the prefix cache; null if the server does not report them. */
  readonly cachedTokens: number | null;
}

/** True if the value can be a server's count of tokens. */
export function isTokenCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Largest log-prob that a sampler may report: rounding may give a probability just above 1. */
export const HIGHEST_LOG_PROB = 1e-3;
