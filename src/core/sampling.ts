/** How text is sampled, and what a sample cost. */

/** Sent explicitly with every request, so that a server's own generation defaults never apply. */
export interface Sampling {
  /** 0 is greedy. @default 1 */
  readonly temperature: number;
  /** In (0, 1]; below 1 the log-probs cannot be reproduced by a trainer. @default 1 */
  readonly topP: number;
  /** Further fields of the wire, passed through as they are (`top_k`, `min_p`, ...). */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Tokens of one call. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens served from the prefix cache; null when the server does not say. */
  readonly cachedTokens: number | null;
}
