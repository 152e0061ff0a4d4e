/** The entry module of `vf-search/environments/self-play-code`: parsers, rewards and formulas by name, prompts, the environment. */
export { facts } from './arguments.ts';
export {
  type CheckOptions,
  checkSolution,
  type FunctionScore,
  type JudgeOptions,
  judgeSolutions,
  solutionText,
  type Verdict,
} from './check-solution.ts';
export { type Critique, type CritiqueOptions, type CriticScoreOptions, type CriticScores, criticScores, parseCritique } from './critique.ts';
export {
  type InputsOptions,
  type ParsedCode,
  type ParsedInputs,
  type ParsedProposal,
  parseCode,
  parseInputsMessage,
  parseMiniCode,
  parseMiniInputsMessage,
  parseMiniProposal,
  parseProposal,
  type ProposalFault,
  type ProposalOptions,
  type RenamedFunction,
} from './parse-proposal.ts';
export { CRSP_KEYS, type CrspConfig, parseCrspConfig, type ParsedCrspConfig } from './crsp-config.ts';
export { type CrspArguments, crspArguments, crspTrainingSettings, type ReadCrspConfig, readCrspConfig } from './crsp-settings.ts';
export { CREATIVITY_GRADING_PROMPT, DIMENSIONS, type Grading } from './grading-prompt.ts';
export { critiquePrompt, type PromptStyle, type ProposalPrompt, proposePrompt, solvePrompt } from './prompt.ts';
export { type FunctionRecord, IDENTITY, type IoRecord, type Role, shownCount, TASK_KINDS, type TaskKind, type TaskRecord } from './records.ts';
export { type AnswerPlace, extractAnswer, extractThought, extractValue, formatReward, parseReply, type Reply } from './reply.ts';
export {
  type Alphas,
  alphaSchedule,
  integratedCritiqueReward,
  integratedSolveReward,
  learnability,
  lengthReward,
  type LengthRewardOptions,
  type ProposalOutcome,
  proposeReward,
  type RewardParts,
  type SolutionOutcome,
  solveReward,
} from './rewards.ts';
export { limoRows } from 'vf-search/environment-kit';
export { type BufferEntry, type BufferFilter, type BufferMix, type BufferState, ProgramBuffer } from './buffer.ts';
export { examineProposal, type Examiner, type ProposalRequest } from './examine-proposal.ts';
export { loadEnvironment } from './load-environment.ts';
export { loadTasks, type LoadTasksOptions, type NamedTask } from './load-tasks.ts';
export type { ProposalResult } from './proposals.ts';
export { type GivenProgram, SelfPlayEnv, type SelfPlayOptions } from './self-play-env.ts';
export { DEFAULT_SETTINGS, type SelfPlaySettings } from './settings.ts';
export { createSource, playedRoles } from './source.ts';
export { type TaskInfo, type TaskRow } from './task-rows.ts';
export { trainingSettings } from './training-settings.ts';
