/**
 * `vf-search/environment-kit`: parts for larger environments, from which those of the package are built. Questions with a retriever, models in roles other than
 * judges, images, answer parsers, files of the user's own. The parts that every environment needs are in the main entry.
 */
export { type ArgumentKind, type ArgumentValues } from './core/environment-arguments.ts';
export { suggestion } from './core/closest-name.ts';
export type { AgentOptions, AgentState } from './core/agent-env.ts';
export type {
  AgentResult,
  Baseline,
  BranchContext,
  EnvironmentLimits,
  Episode,
  PlayOptions,
  ProgramModels,
  TokenConventions,
} from './core/environment.ts';
export { thrownText } from './core/errors.ts';
export { Limiter } from './core/limiter.ts';
export { SharedFlight } from './core/shared-flight.ts';
export type { TrainingSetting } from './registry/training-settings.ts';

export type { MetricDisplay, TextSegment } from './core/rubric.ts';
export { RubricGroup } from './core/rubric-group.ts';
export { judgeBy } from './core/builtin-judges.ts';
export { judgeMessages, judgeReward } from './core/judge-rubric.ts';
export type { Model, ModelRequest, Models } from './core/model.ts';
export { structuredReply } from './core/structured-reply.ts';
export { afterThoughts } from './core/text-outside-thoughts.ts';
export { MaybeThinkParser, Parser, ThinkParser } from './core/parser.ts';
export { XMLParser } from './core/xml-parser.ts';

export { type ContentPart, contentImages, type ImageRef, type ImageStore, type MessageContent } from './core/message.ts';
export { type ImageSizes, imageTokens, MAX_ASPECT, MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS, type PixelRange, smartResize } from './core/image-size.ts';

export { bundledFolder } from './data/bundled.ts';
export { SAME_ROWS_NOTICE } from './core/training-rows.ts';
export type { RowsSource } from './data/find-rows.ts';
export { limoRows } from './data/limo-rows.ts';
export { type DataRecord, loadRecords, type LoadRecordsOptions } from './data/load-records.ts';
export { splitNotices } from './data/split-notices.ts';
export { isInside } from './files/is-inside.ts';
export { withoutColours } from './core/without-colours.ts';
export { doubtfulNotices, readGoldenAnswers } from './schemas/golden-answers.ts';
export { holdsAnswers } from './schemas/question-row.ts';
export { fieldsOf, isObject } from './schemas/is-object.ts';
export { moduleFunction } from './registry/load-export.ts';
export { AgentError, type AgentFailure } from './core/agent-error.ts';
export { stderrCause, stderrText, tellingLine } from './core/program-stderr.ts';
export { readTextFile } from './files/json-file.ts';
export { readDocument } from './files/read-document.ts';

export { openPageRetriever, type OpenPageRetrieverOptions, SEARCH_FORMS, type SearchForm } from './registry/open-page-retriever.ts';
export { type CreateRetriever, type EngineContext, isEngineModule } from './registry/open-engine-module.ts';
export { PACE_ARGUMENTS, paceOf, type SearchPace } from './registry/search-pace.ts';
export { modelFromLanguageModel } from './registry/model-from-language-model.ts';
export { openWebSearch, type WebSearchOptions } from './registry/open-web-search.ts';
export {
  columnsArgument,
  engineArgument,
  loadQuestions,
  openSource,
  SEARCH_ALIASES,
  SEARCH_ARGUMENTS,
  type SearchContext,
  type SearchSource,
  searchSource,
  sourceNotices,
  vanishingNotices,
} from './registry/search-environment.ts';
export type { PagePictures } from './retrieval/vectors/vector-retriever.ts';
