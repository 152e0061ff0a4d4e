/** The entry module of `vf-search/environments/search-o1`: upstream's functions by name, the environment class, and `loadEnvironment`. */
export { type AnswerMode, extractAnswer, extractBoxed, extractInformation, NOTHING_FOUND } from './extract.ts';
export { loadEnvironment } from './load-environment.ts';
export { extractQuery, LIMIT_NOTE, REPEATED_NOTE, searchResult } from './markers.ts';
export { previousReasoning } from './previous-reasoning.ts';
export {
  type Instruction,
  type ModelName,
  reasoningPrompt,
  type ReasoningPromptOptions,
  type RefinementInput,
  refinementPrompt,
  searchInstruction,
  searchLimit,
  taskInstruction,
} from './prompt.ts';
export { helpfulSentences, type RefinementData, SENTENCE_REFINER } from './refiner.ts';
export { judgedText, type Scorer, type SearchO1Metric, type SearchO1Row, searchO1Rubric, type SearchO1RubricOptions } from './rubric.ts';
export { REFINER_ROLES, SearchO1Env, type SearchO1Options, type SearchO1Question } from './search-o1-env.ts';
export { snippetContext } from './snippet-context.ts';
export type { SearchO1State } from './state.ts';
export { formatWebPages, pageOf, type PageSearch, pageSearch, type WebPage } from './web-pages.ts';
