/**
 * The main entry: the names that the author of an environment needs, and `evaluate`, `train` and the other functions for callers. docs/library.md lists all entries.
 * Nothing here is exported by a wildcard, so that each public name is chosen on purpose; `test/api` holds them with their signatures.
 */
export { Dataset, type Row } from './core/dataset.ts';
export { EnvGroup } from './core/env-group.ts';
export type { AgentPolicy, Environment, EpisodeOptions, StepContext } from './core/environment.ts';
export { type EnvResponse, type EpisodeState, MultiTurnEnv } from './core/multi-turn.ts';
export { AgentEnv, type AgentRun } from './core/agent-env.ts';
export { SingleTurnEnv } from './core/single-turn.ts';
export { defineTool } from './core/tool.ts';
export { ToolEnv } from './core/tool-use.ts';
export { toolCallingBaseline } from './core/tool-calling-baseline.ts';

export { groupReward, metric, reward, type RewardContext, Rubric, type Score } from './core/rubric.ts';
export { JudgeRubric } from './core/judge-rubric.ts';
export { exactMatchJudge, scriptedModel } from './core/builtin-judges.ts';
export type { RoleDeclarations } from './core/model.ts';

export { choiceArgument, flagArgument, integerArgument, numberArgument, readArguments, textArgument } from './core/environment-arguments.ts';
export type { ArgumentsCheck } from './registry/check-arguments.ts';
export type { EnvironmentFacts } from './registry/environment-facts.ts';
export type { TrainingSettings } from './registry/training-settings.ts';
export { contentText, type Message } from './core/message.ts';
export { Random } from './core/random.ts';
export { loadRows } from './data/load-rows.ts';
export type { QuestionRow } from './schemas/question-row.ts';
export { openRetriever } from './registry/open-retriever.ts';
export type { Passage, Retriever, SearchOptions } from './retrieval/retriever.ts';

export { type LoadContext, loadEnvironment, loadEnvironment as load_environment } from './registry/load-environment.ts';
export { evaluate, type Evaluated, type EvaluateOptions } from './library/evaluate.ts';
export { openPolicy } from './library/open-policy.ts';
export { mcpTools } from './mcp/mcp-tools.ts';
export { policyFromLanguageModel } from './clients/language-model-policy.ts';
export type { PolicyClient } from './clients/policy-client.ts';
export type { OpenedPolicy } from './sessions/policy/open-policy.ts';
export type { PolicySpec } from './sessions/policy/policy-spec.ts';
export { type DrivenEpisode, startEpisode } from './library/start-episode.ts';
export { type EpisodeRecord, scoreEpisode } from './library/score-episode.ts';
export { train, type Trained, type TrainedStep, type TrainOptions } from './library/train.ts';

export {
  CancelledError,
  ConfigError,
  EnvironmentError,
  ModelError,
  PolicyError,
  PromptTooLongError,
  ResultsError,
  RetrievalError,
  RewardError,
  TimeoutError,
  TrainingError,
  VfError,
} from './core/errors.ts';
