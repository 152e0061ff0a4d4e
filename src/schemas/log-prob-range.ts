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
