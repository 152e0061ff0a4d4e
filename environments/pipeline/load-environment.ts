/** Opens the pipeline that the arguments name, with its questions. */
import { choiceArgument, ConfigError, type EnvironmentFacts, flagArgument, type LoadContext, readArguments, textArgument } from 'vf-search';
import { type ArgumentKind, SAME_ROWS_NOTICE } from 'vf-search/environment-kit';
import { openPipeline, QuestionPipeline } from 'vf-search/pipelines';
import { PipelineEnv } from './pipeline-env.ts';

/** Needs no model and no server. */
const DEFAULT_FILE = 'examples/own-tools.yaml';

const settings: ArgumentKind<readonly string[]> = {
  expected: 'a list of texts such as "generation.model_name=NAME"',
  accepts: (v): v is readonly string[] => Array.isArray(v) && v.every((each) => typeof each === 'string'),
};

const ARGUMENTS = {
  file: textArgument,
  set: settings,
  train_path: textArgument,
  tools: choiceArgument('2.0', '3.0'),
  metric: textArgument,
  strict_stops: flagArgument,
} as const;

/** Facts that the environment declares before it is loaded: a pipeline's servers are modules. */
export const facts: EnvironmentFacts = { fileArguments: { file: DEFAULT_FILE } };

/** Throws ConfigError for unusable arguments and for any fault of the pipeline or its parameters. */
export async function loadEnvironment(args: Readonly<Record<string, unknown>> = {}, context: Partial<LoadContext> = {}): Promise<PipelineEnv> {
  const {
    file = DEFAULT_FILE,
    set = [],
    train_path: path,
    tools,
    metric,
    strict_stops: strictStops = false,
  } = readArguments('pipeline', ARGUMENTS, args);
  const { env = process.env, purpose = 'evaluation', signal = new AbortController().signal, note } = context;
  const opened = await openPipeline(file, { set, ...(tools && { tools }), strictStops, ...(note && { onNotice: note }), env, signal });
  try {
    const pipeline = await QuestionPipeline.of(opened, signal);
    const bundled = opened.path === file ? [] : [`${file} is not here, so the package's is played; vf-pipeline build copies it here.`];
    const questions = await pipeline.questions(signal);
    if (path !== undefined && pipeline.askingServers.length === 0)
      throw new ConfigError(
        `train_path has no effect: no generation server of ${file} asks the policy. Set one, as in "set": ["generation.backend=policy"]`,
      );
    const isTraining = purpose === 'training' && pipeline.askingServers.length > 0;
    if (isTraining && path === undefined)
      throw new ConfigError(`${file} has no questions to train on. Name a file with them: -a '{"train_path": "train.jsonl"}'`);
    const trainQuestions = isTraining ? await pipeline.questions(signal, path) : undefined;
    const trained = new Set(trainQuestions?.map((question) => JSON.stringify(question)));
    const isSame = questions.every((question) => trained.has(JSON.stringify(question)));
    const notices = [...bundled, ...pipeline.warnings, ...(isSame ? [SAME_ROWS_NOTICE] : [])];
    return new PipelineEnv({ pipeline, questions, ...(trainQuestions && { trainQuestions }), metric: rewardMetric(pipeline, metric), file, notices });
  } catch (error) {
    await opened[Symbol.asyncDispose]();
    throw error;
  }
}

function rewardMetric({ metrics }: QuestionPipeline, asked: string | undefined): string {
  const name = asked?.toLowerCase() ?? (metrics.includes('em') ? 'em' : metrics[0]!);
  if (metrics.includes(name)) return name;
  throw new ConfigError(`The pipeline does not compute the metric ${name}. It computes ${metrics.join(', ')}; evaluation.metrics chooses others.`);
}
