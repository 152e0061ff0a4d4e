/** The entry module of `vf-search/environments/grpo-000`: the specification's functions and views by name, the environment class, its engines. */
export { CONFIG_KEYS, type ConfigKey, type ConfigWarning, parseConfig, type ParsedConfig, type SearchR1Config } from './config.ts';
export { GrpoEnv, type GrpoEnvOptions, type GrpoQuestion } from './grpo-env.ts';
export { loadEnvironment } from './load-environment.ts';
export { type PromptStyle, promptFor } from './prompt.ts';
export { cutLength, informationBlock, isThinking, searchQuery, withoutThinking } from './protocol.ts';
export { answerReward, type AnswerRewardOptions, finalAnswer, formatReward, type FormatRewardOptions } from './reward.ts';
export { type QueryWithTruth, rowsFromJson } from './rows.ts';
export { type GrpoRow, grpoRubric, type GrpoRubricOptions, judgedText } from './rubric.ts';
export { MockSearchEngine, nothingFound, retrieverEngine, type SearchEngine } from './search-engine.ts';
export type { GrpoState } from './state.ts';
export { trainingSettings } from './training-settings.ts';
export {
  logProbSum,
  toTrajectory,
  type TokenStep,
  type Trajectory,
  trajectoryFromJson,
  type TrajectoryOptions,
  type ViewedRollout,
  type ViewedTrajectory,
} from './trajectory.ts';
export { WebSearchEngine, type WebSearchEngineOptions } from './web-search-engine.ts';
export { sequenceMatcherRatio } from 'vf-search/metrics/sequence-matcher';
