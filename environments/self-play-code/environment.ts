/** The entry module of `vf-search/environments/self-play-code`: parsers, rewards and formulas by name, prompts, the environment. */
export { DIMENSIONS } from './prompt-full.ts';
export { critiquePrompt, type PromptStyle, type ProposalPrompt, proposePrompt, solvePrompt } from './prompt.ts';
export {
  type FunctionRecord,
  IDENTITY,
  type IoRecord,
  type Role,
  shownCount,
  TASK_KINDS,
  type TaskKind,
  taskKey,
  type TaskRecord,
} from './records.ts';
