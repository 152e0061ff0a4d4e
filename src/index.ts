/** What an environment author and an evaluation harness need, grouped by concept. The other barrels are `engine/index.ts`, `execution/index.ts` and `trainer/index.ts`. */
export { suggestion } from './core/closest-name.ts';
export { Dataset, type Row } from './core/dataset.ts';
export { EnvGroup, type EnvGroupOptions } from './core/env-group.ts';
export type * from './core/environment.ts';
export {
  type ArgumentKind,
  type ArgumentValues,
  choiceArgument,
  flagArgument,
  integerArgument,
  numberArgument,
  readArguments,
  textArgument,
} from './core/environment-arguments.ts';
export { exactMatchJudge, type ExactMatchJudgeOptions, judgeBy, scriptedModel, type ScriptedModelOptions } from './core/builtin-judges.ts';
export * from './core/errors.ts';
export {
  type JudgeData,
  type Judgement,
  judgeMessages,
  judgeReward,
  JudgeRubric,
  type JudgeRubricOptions,
  type JudgeTemplate,
  type ScoreRange,
} from './core/judge-rubric.ts';
export {
  type ImageSize,
  type ImageSizes,
  imageTokens,
  MAX_ASPECT,
  MAX_IMAGE_BYTES,
  MAX_IMAGE_PIXELS,
  type PixelRange,
  smartResize,
} from './core/image-size.ts';
export { Limiter } from './core/limiter.ts';
export {
  type ContentPart,
  contentImages,
  contentText,
  type ImageRef,
  type ImageStore,
  IMAGE_MARK,
  type Message,
  type MessageContent,
  markedText,
  type PlacedImage,
  type RenderedTokens,
  type Role,
  type ToolCall,
} from './core/message.ts';
export type * from './core/model.ts';
export { LazyModels } from './models/lazy-models.ts';
export { openRoleModels, type OpenedRoleModels, type RoleBinding, type RoleBindings } from './models/role-models.ts';
export { clientModel, type ClientModelOptions } from './models/client-model.ts';
export type { Quantiles, RoleStats } from './schemas/role-stats.ts';
export { type EnvResponse, type EpisodeState, MultiTurnEnv, type MultiTurnOptions } from './core/multi-turn.ts';
export { MaybeThinkParser, Parser, ThinkParser } from './core/parser.ts';
export { ProgramEnv, type ProgramOptions } from './core/program.ts';
export { Random } from './core/random.ts';
export { SharedFlight } from './core/shared-flight.ts';
export {
  type GroupRewardFunction,
  groupReward,
  metric,
  type MetricDisplay,
  reward,
  type RewardContext,
  type MetricFunction,
  type RewardFunction,
  Rubric,
  type Score,
  type ScoringRunner,
  type TextSegment,
} from './core/rubric.ts';
export { RubricGroup } from './core/rubric-group.ts';
export { structuredReply, type StructuredRequest } from './core/structured-reply.ts';
export { SingleTurnEnv } from './core/single-turn.ts';
export { type ParsedToolCall, parseToolCalls, type ToolCallAttempt, type ToolCallFormat, type ToolSpec } from './core/tool-calls.ts';
export { defineTool, type Tool, ToolEnv, type ToolExecution, type ToolOptions, type ToolState } from './core/tool-use.ts';
export { type ScriptedCall, toolCallingBaseline, type ToolScript } from './core/tool-calling-baseline.ts';
export { type SampledTokens, TokenBuffer, type TokenSegment } from './core/token-buffer.ts';
export { XMLParser, type XMLParserOptions } from './core/xml-parser.ts';
export type * from './clients/policy-client.ts';
export { NO_POLICY } from './clients/no-policy.ts';
export { PolicyVersions } from './clients/policy-versions.ts';
export type { PipelineServer, PipelineTool } from './pipelines/pipeline-server.ts';
export type { Passage, Retriever } from './retrieval/retriever.ts';
export { playEpisode, type PlayOptions } from './rollouts/play.ts';
export type {
  FailureSource,
  Generation,
  Played,
  Rollout,
  RolloutError,
  RolloutFacts,
  RolloutTiming,
  RolloutUsage,
  ScoredGroup,
} from './rollouts/rollout.ts';
export { assertPlayable } from './rollouts/assert-playable.ts';
export { type RolloutGroup, runRollouts, type RunOptions } from './rollouts/run-rollouts.ts';
export type { PagePictures } from './retrieval/vectors/vector-retriever.ts';
export type { Picture } from './retrieval/vectors/vector-encoder.ts';
export { openPageRetriever, type OpenPageRetrieverOptions, SEARCH_FORMS, type SearchForm } from './registry/open-page-retriever.ts';
export { openRetriever, RETRIEVAL_ENGINES, type OpenRetrieverOptions } from './registry/open-retriever.ts';
export { openWebSearch, WEB_PROVIDERS, type WebProvider, type WebSearchOptions } from './registry/open-web-search.ts';
export {
  type GivenSearchArguments,
  loadQuestions,
  type LoadedQuestions,
  openSource,
  SEARCH_ALIASES,
  SEARCH_ARGUMENTS,
  type SearchContext,
  type SearchSource,
  searchSource,
  sourceNotices,
} from './registry/search-environment.ts';
export type { QuestionRow } from './schemas/question-row.ts';
export { isInside } from './files/is-inside.ts';
export { readDocument, readTextFile } from './files/read-document.ts';
export { type LimoRow, type LimoRows, limoRows, type ParsedLimoRow, parseLimoRow } from './data/limo-rows.ts';
export { type DataRecord, loadRecords, type LoadRecordsOptions } from './data/load-records.ts';
export { loadRows, type LoadRowsOptions, type RowsProvenance } from './data/load-rows.ts';
export { bundledFolder } from './data/bundled.ts';
export type { RowsSource } from './data/find-rows.ts';
export { recordEvaluation } from './evaluate/record-evaluation.ts';
export type { EvaluationEvent, EvaluationOptions, EvaluationResult, RunIdentity } from './evaluate/evaluation-options.ts';
export { readRollouts } from './evaluate/read-rollouts.ts';
export type { RolloutExport } from './schemas/rollout-export.ts';
export type { Estimate, Summary } from './schemas/summary.ts';
export {
  environmentDefaults,
  type LoadContext,
  loadEnvironment,
  loadEnvironment as load_environment,
  type LoadEnvironmentOptions,
} from './registry/load-environment.ts';
export { evaluate, type Evaluated, type EvaluateOptions, type RoleSpec } from './library/evaluate.ts';
export { openPolicy, type OpenPolicyFor } from './library/open-policy.ts';
export { type EpisodeRecord, scoreEpisode, type ScoreEpisodeOptions } from './library/score-episode.ts';
export { type DrivenEpisode, startEpisode, type StartEpisodeOptions } from './library/start-episode.ts';
export type { RecordedRollout } from './evaluate/recorded-rollout.ts';
export type { OpenedPolicy } from './sessions/policy/open-policy.ts';
export type { PolicySpec } from './sessions/policy/policy-spec.ts';
export type { EnvironmentDefaults } from './schemas/environment-description.ts';
export type { ArgumentsCheck, ArgumentsContext } from './registry/check-arguments.ts';
export type { EnvironmentFacts } from './registry/environment-facts.ts';
export type { TrainingSetting, TrainingSettings, TrainingSettingsContext } from './registry/training-settings.ts';
export { type Trained, type TrainedStep, type TrainingEvaluation, type TrainSettings, type TrainOptions, train } from './library/train.ts';
