/** The log-probs and token ids that a sampler can have given. Every reader of samples goes by them: servers, callers, exports, training. */

/** Largest log-prob that a sampler may report: rounding may give a probability just above 1. */
export const HIGHEST_LOG_PROB = 1e-3;
/** Far below what logits in float32 give. vLLM writes -9999 for minus infinity. */
const LOWEST_LOG_PROB = -1e6;
/** The largest vocabularies have 2^20 tokens. */
const MOST_TOKENS = 2 ** 24;

export function isLogProb(value: number): boolean {
  return value <= HIGHEST_LOG_PROB && value >= LOWEST_LOG_PROB;
}

/** True for an id that some vocabulary may have, where that of the model is not known. */
export function isTokenId(id: number): boolean {
  return Number.isInteger(id) && id >= 0 && id < MOST_TOKENS;
}

/**
 * Why no sampler gave these tokens; null if one can have. A recorded log-prob may be missing, or minus infinity: updates leave such tokens out.
 * @param logProbs of the sampled tokens
 */
export function recordedProblem(ids: ArrayLike<number>, logProbs: ArrayLike<number | null>): string | null {
  const id = Array.prototype.find.call(ids, (value: number) => !isTokenId(value)) as number | undefined;
  if (id !== undefined) return `the token id ${id}, which no vocabulary has`;
  const isForeign = (value: number | null) => value !== null && !Number.isNaN(value) && value !== -Infinity && !isLogProb(value);
  const logProb = Array.prototype.find.call(logProbs, isForeign) as number | undefined;
  return logProb === undefined ? null : `the log-prob ${logProb}, which no sampler gives`;
}
