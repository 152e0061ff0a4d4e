/** The entry module of `vf-search/environments/search-r1`: upstream's functions by name, the environment class, and `loadEnvironment`. */
export { type Action, CORRECTIVE_MESSAGE, cutResponse, formatPassages, observation, parseAction } from './actions.ts';
export { facts } from './arguments.ts';
export { emCheck, normalizeAnswer, subemCheck } from './answer.ts';
export { ASSISTANT_ANCHOR, type FormatVerdict, isValidSequence } from './format.ts';
export { loadEnvironment } from './load-environment.ts';
export { environmentMetrics, type RolloutStats } from './metrics.ts';
export { makePrefix, normalizeQuestion, type PromptTemplate } from './prompt.ts';
export {
  computeScoreEm,
  computeScoreEmFormat,
  computeScoreSubem,
  extractInformationBlocks,
  extractSolution,
  type FormatWeights,
  isRetrievalCorrect,
  type MatchWeights,
} from './reward.ts';
export { type GroundTruth, type Question, type SearchR1Row, toRow, type UpstreamRow } from './rows.ts';
export { type Scorer, scoredSequence, searchR1Rubric } from './rubric.ts';
export { SearchR1Env, type SearchR1Options, UPSTREAM_LIMITS } from './search-r1-env.ts';
export type { SearchR1State } from './state.ts';
