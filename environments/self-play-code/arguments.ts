/** The arguments of `loadEnvironment`, in snake_case or camelCase, with their defaults. Unknown or unusable ones are a ConfigError. */
import { choiceArgument, ConfigError, type EnvironmentFacts, flagArgument, integerArgument, readArguments, textArgument } from 'vf-search';
import type { ArgumentKind } from 'vf-search/environment-kit';
import { DEFAULT_LIMITS, type ExecutionLimits, type ExecutorName } from 'vf-search/execution';
import { bonusesArgument } from './bonuses.ts';
import { FILTERS, MIXES } from './buffer.ts';
import { GRADINGS } from './grading-prompt.ts';
import { CRSP_KEYS } from './crsp-config.ts';
import { type CrspArguments, crspArguments, crspNotices, readCrspConfig, type ReadCrspConfig } from './crsp-settings.ts';
import { TASK_KINDS, type TaskKind } from './records.ts';
import { BANNED_WORDS, DEFAULT_SETTINGS, INPUT_COUNT, type SelfPlaySettings } from './settings.ts';

export interface SelfPlayArguments {
  readonly settings: SelfPlaySettings;
  readonly dataset: string;
  /** A bundled set whose training split a run begins with. */
  readonly seeds: string;
  /** A file of the user's own tasks for evaluation. Null: those of the data set. */
  readonly tasks: string | null;
  /** A file of programs in place of proposals. Null: the policy proposes. */
  readonly proposals: string | null;
  readonly execution: { readonly executor: ExecutorName; readonly workers: number };
  readonly limits: ExecutionLimits;
  /** Null: no limit. */
  readonly responseTokens: number | null;
  /** Notices about arguments that change nothing. */
  readonly notices: readonly string[];
  /** The values in effect, by their names on the command line, for results files. */
  readonly named: Readonly<Record<string, unknown>>;
}

const EXECUTORS = ['wasi', 'bubblewrap', 'none'] as const satisfies readonly ExecutorName[];

/** The limits that an executor accepts; without this check, a wrong limit would fail only with the first program. */
const secondsArgument: ArgumentKind<number> = {
  expected: 'a number from 0.01 to 86400',
  accepts: (v): v is number => typeof v === 'number' && v >= 0.01 && v <= 86_400,
};

function wholeArgument(least: number, most: number): ArgumentKind<number> {
  return {
    expected: `an integer from ${least} to ${most}`,
    accepts: (v): v is number => Number.isInteger(v) && (v as number) >= least && (v as number) <= most,
  };
}

function listArgument<T extends string>(expected: string, accepts: (each: string) => each is T, least = 1): ArgumentKind<readonly T[]> {
  return {
    expected,
    accepts: (v): v is readonly T[] =>
      Array.isArray(v) && v.length >= least && v.every((each) => typeof each === 'string' && accepts(each)) && new Set(v).size === v.length,
  };
}

const isKind = (name: string): name is TaskKind => (TASK_KINDS as readonly string[]).includes(name);
const isWord = (name: string): name is string => name.trim() !== '';

interface Execution {
  readonly executor?: ExecutorName;
  readonly workers?: number;
}

const executionArgument: ArgumentKind<ExecutorName | Execution> = {
  expected: `${EXECUTORS.map((name) => `"${name}"`).join(', ')}, or {"executor": one of them, "workers": a number of at least 1}`,
  accepts: (v): v is ExecutorName | Execution => {
    if (typeof v === 'string') return (EXECUTORS as readonly string[]).includes(v);
    if (typeof v !== 'object' || v === null || Array.isArray(v)) return false;
    const { executor, workers, ...unknown } = v as Record<string, unknown>;
    if (Object.keys(unknown).length > 0) return false;
    const isNamed = executor === undefined || (EXECUTORS as readonly unknown[]).includes(executor);
    return isNamed && (workers === undefined || (Number.isInteger(workers) && (workers as number) >= 1));
  },
};

const KINDS = {
  dataset: textArgument,
  tasks: textArgument,
  seeds: textArgument,
  prompt: choiceArgument('full', 'mini'),
  kinds: listArgument<TaskKind>(`a list of ${TASK_KINDS.join(', ')}, none twice`, isKind),
  rewards: choiceArgument('accuracy', 'azr', 'crsp'),
  function_score: choiceArgument('binary', 'accuracy', 'if_one_correct'),
  num_inputs: integerArgument(2),
  references: integerArgument(0),
  banned: listArgument<string>('a list of words, none twice', isWord, 0),
  novelty: flagArgument,
  bonuses: bonusesArgument,
  filter: choiceArgument(...FILTERS),
  mix: choiceArgument(...MIXES),
  replay: integerArgument(0),
  max_programs: integerArgument(1),
  max_statements: integerArgument(1),
  train_probes: flagArgument,
  train_propose: flagArgument,
  critics: integerArgument(0),
  dimensions: listArgument<string>('a list of words, none twice', isWord),
  grading: choiceArgument(...GRADINGS),
  creativity: choiceArgument('others', 'self'),
  proposals: textArgument,
  execution: executionArgument,
  timeout_s: secondsArgument,
  memory_mb: wholeArgument(32, 4096),
  max_repr_length: wholeArgument(1, 16 * 2 ** 20),
  max_response_length: integerArgument(1),
  config: {
    expected: 'the path of a YAML or JSON file, or an object',
    accepts: (v): v is string | object => (typeof v === 'string' && v !== '') || (typeof v === 'object' && v !== null && !Array.isArray(v)),
  } satisfies ArgumentKind<string | object>,
} as const;

type Values = Readonly<Record<string, unknown>>;

/** Facts that the environment declares before it is loaded. */
export const facts: EnvironmentFacts = { executor: (args) => executionOf(readArguments('self-play-code', KINDS, args).execution).executor };

function executionOf(given: ExecutorName | Execution = {}): Execution & { readonly executor: ExecutorName } {
  const { executor = 'wasi', ...rest } = typeof given === 'string' ? { executor: given } : given;
  return { ...rest, executor };
}

/** The specification's YAML among the arguments; null without it. */
export async function crspOf(args: Values): Promise<ReadCrspConfig | null> {
  const { config } = readArguments('self-play-code', KINDS, args);
  return config === undefined ? null : readCrspConfig(config);
}

/** Bundled tasks by prompt style: one-line programs for the bundled model, ordinary ones for others. */
const SEEDS = { full: 'python-programs', mini: 'mini-python' } as const;

/** Two workers: one more on a laptop's two cores would only take time from the sampler. */
const WORKERS = 2;

/** @param purpose decides how rollouts are rewarded if the arguments do not set it */
export async function parseArguments(args: Values, purpose: 'evaluation' | 'training'): Promise<SelfPlayArguments> {
  const given = readArguments('self-play-code', KINDS, args);
  const read = await crspOf(args);
  const crsp: CrspArguments = read === null ? {} : crspArguments(read.config, read.givenKeys);
  const prompt = given.prompt ?? DEFAULT_SETTINGS.prompt;
  const rewards = given.rewards ?? (purpose === 'evaluation' ? 'accuracy' : read === null ? 'azr' : 'crsp');
  const settings: SelfPlaySettings = {
    prompt,
    kinds: given.kinds ?? crsp.kinds ?? DEFAULT_SETTINGS.kinds,
    rewards,
    functionScore: given.function_score ?? DEFAULT_SETTINGS.functionScore,
    inputCount: given.num_inputs ?? INPUT_COUNT[prompt],
    references: given.references ?? (prompt === 'mini' ? 0 : DEFAULT_SETTINGS.references),
    banned: given.banned ?? BANNED_WORDS,
    novelty: given.novelty ?? DEFAULT_SETTINGS.novelty,
    bonuses: given.bonuses ?? DEFAULT_SETTINGS.bonuses,
    filter: given.filter ?? DEFAULT_SETTINGS.filter,
    mix: given.mix ?? DEFAULT_SETTINGS.mix,
    replay: given.replay ?? null,
    maxPrograms: given.max_programs ?? DEFAULT_SETTINGS.maxPrograms,
    maxStatements: given.max_statements ?? DEFAULT_SETTINGS.maxStatements,
    trainProbes: given.train_probes ?? true,
    trainPropose: given.train_propose ?? true,
    critics: given.critics ?? (rewards !== 'crsp' || crsp.critique === null ? 0 : 2),
    dimensions: given.dimensions ?? crsp.critique?.dimensions ?? DEFAULT_SETTINGS.dimensions,
    grading: given.grading ?? DEFAULT_SETTINGS.grading,
    creativity: given.creativity ?? DEFAULT_SETTINGS.creativity,
    schedule: crsp.schedule ?? DEFAULT_SETTINGS.schedule,
    lengthReward: crsp.lengthReward ?? DEFAULT_SETTINGS.lengthReward,
  };
  if (settings.critics > 0 && rewards !== 'crsp')
    throw new ConfigError(`critics needs the rewards "crsp", got rewards "${rewards}". Set both, or leave critics out.`);
  if (prompt === 'mini' && settings.grading !== 'own')
    throw new ConfigError(`grading = "${settings.grading}" is a prompt of the style "full", but prompt is "mini". Leave one of the two out.`);
  const asked = executionOf(given.execution);
  const execution = { executor: asked.executor, workers: asked.workers ?? crsp.workers ?? WORKERS };
  const limits: ExecutionLimits = {
    ...DEFAULT_LIMITS,
    ...(given.timeout_s === undefined ? {} : { seconds: given.timeout_s }),
    ...(given.memory_mb === undefined ? {} : { memoryBytes: given.memory_mb * 2 ** 20 }),
    ...(given.max_repr_length === undefined ? {} : { reprLength: given.max_repr_length }),
  };
  return {
    settings,
    dataset: given.dataset ?? 'mini-python',
    tasks: given.tasks ?? null,
    seeds: given.seeds ?? SEEDS[prompt],
    proposals: given.proposals ?? null,
    execution,
    limits,
    responseTokens: given.max_response_length ?? null,
    notices: [...(read === null ? [] : crspNotices(read, purpose)), ...criticNotices(given, settings)],
    named: namedValues(
      { ...given, ...(read === null ? {} : { config: read.givenKeys.length === CRSP_KEYS.length ? 'complete' : [...read.givenKeys] }) },
      settings,
      execution,
      limits,
    ),
  };
}

/** Notices about arguments of critics that change nothing. */
function criticNotices(given: Values, { critics, grading, dimensions }: SelfPlaySettings): string[] {
  const idle = ['grading', 'creativity', 'dimensions'].filter((name) => given[name] !== undefined);
  if (critics === 0)
    return idle.map((name) => `${name} changes nothing without critics. Set rewards to "crsp" and critics to at least 1, or leave it out.`);
  const isOther = dimensions.join() !== DEFAULT_SETTINGS.dimensions.join();
  return grading === 'document' && isOther
    ? [
        'The prompt of grading = "document" has its own dimensions: dimensions only chooses the scores that are read. Use grading = "scores" to ask for others.',
      ]
    : [];
}

function namedValues(given: Values, settings: SelfPlaySettings, execution: SelfPlayArguments['execution'], limits: ExecutionLimits): Values {
  const {
    inputCount,
    functionScore,
    maxPrograms,
    maxStatements,
    trainProbes,
    trainPropose,
    lengthReward,
    grading,
    creativity,
    banned: _,
    ...same
  } = settings;
  return {
    dataset: given['dataset'] ?? 'mini-python',
    tasks: given['tasks'] ?? null,
    seeds: given['seeds'] ?? SEEDS[settings.prompt],
    ...same,
    // Only if they are set: an evaluation of an earlier version, which knew neither, can be resumed.
    ...(grading === DEFAULT_SETTINGS.grading ? {} : { grading }),
    ...(creativity === DEFAULT_SETTINGS.creativity ? {} : { creativity }),
    num_inputs: inputCount,
    function_score: functionScore,
    max_programs: maxPrograms,
    max_statements: maxStatements,
    train_probes: trainProbes,
    train_propose: trainPropose,
    length_reward: { max_length: lengthReward.maxLength, penalty_threshold: lengthReward.penaltyThreshold },
    proposals: given['proposals'] ?? null,
    execution,
    timeout_s: limits.seconds,
    memory_mb: limits.memoryBytes / 2 ** 20,
    max_repr_length: limits.reprLength,
    max_response_length: given['max_response_length'] ?? null,
    ...(given['config'] === undefined ? {} : { config: given['config'] }),
  };
}
