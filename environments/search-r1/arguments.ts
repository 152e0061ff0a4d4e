/** The arguments of `loadEnvironment`, in snake_case or camelCase, with their defaults. Unknown or unusable ones are a ConfigError. */
import { choiceArgument, type EnvironmentFacts, flagArgument, integerArgument, numberArgument, readArguments } from 'vf-search';
import {
  type ArgumentKind,
  type ArgumentValues,
  type EnvironmentLimits,
  SEARCH_ALIASES,
  SEARCH_ARGUMENTS,
  type SearchSource,
  searchSource,
  type TokenConventions,
} from 'vf-search/environment-kit';
import { isQaMetric, QA_METRIC_NAMES, type QaMetric } from 'vf-search/metrics/qa-metric-names';
import type { FormatWeights } from './reward.ts';
import type { Scorer } from './rubric.ts';
import { UPSTREAM_LIMITS } from './search-r1-env.ts';

export interface SearchR1Arguments extends SearchSource {
  readonly maxTurns: number;
  readonly limits: EnvironmentLimits;
  /** Upstream's limit on tokens of the scored prompt. Scoring here is on text, so the limit only causes a notice. */
  readonly maxStartLength: number;
  readonly weights: Required<FormatWeights>;
  readonly overlong: 'stop' | 'upstream';
  readonly scorer: Scorer;
  /** Further metrics of the answer, with weight 0. */
  readonly metrics: readonly QaMetric[];
  readonly stopAtAnswer: boolean;
  readonly tokens: TokenConventions;
  /** The values in effect, by their names on the command line, for results files. Without URLs, which may contain credentials. */
  readonly named: Readonly<Record<string, unknown>>;
}

type Values = Record<string, unknown>;

const COUNT = integerArgument(1);

/** Every argument by its name on the command line. */
const KINDS = {
  preset: choiceArgument('default', 'paper', 'v0.3'),
  ...SEARCH_ARGUMENTS,
  max_turns: integerArgument(0),
  max_response_length: COUNT,
  max_obs_length: COUNT,
  max_prompt_length: COUNT,
  max_start_length: COUNT,
  structure_format_score: numberArgument,
  final_format_score: numberArgument,
  retrieval_score: numberArgument,
  score: numberArgument,
  overlong: choiceArgument('stop', 'upstream'),
  scorer: choiceArgument('upstream', 'completion'),
  metrics: {
    expected: `a list of names out of ${QA_METRIC_NAMES.join(', ')}, each once`,
    accepts: (v): v is readonly QaMetric[] => Array.isArray(v) && v.every(isQaMetric) && new Set(v).size === v.length,
  },
  stop_at_answer: flagArgument,
  end_of_turn: choiceArgument('dropped', 'kept'),
  bos: choiceArgument('model', 'never'),
} as const satisfies Record<string, ArgumentKind<unknown>>;
type Name = keyof typeof KINDS;
type ArgumentValue<N extends Name> = NonNullable<ArgumentValues<typeof KINDS>[N]>;

const DEFAULTS: Values = {
  dataset: 'nq-mini',
  topk: 3,
  max_turns: 2,
  max_response_length: UPSTREAM_LIMITS.responseTokens,
  max_obs_length: UPSTREAM_LIMITS.observationTokens,
  max_prompt_length: UPSTREAM_LIMITS.contextTokens,
  max_start_length: 2048,
  structure_format_score: 0,
  final_format_score: 0,
  retrieval_score: 0,
  score: 1,
  overlong: 'stop',
  scorer: 'upstream',
  metrics: [],
  stop_at_answer: false,
  end_of_turn: 'dropped',
  bos: 'model',
};

/** The arguments that a preset sets; explicit arguments override them. */
const PRESETS: Readonly<Record<string, Values>> = {
  default: {},
  paper: { max_turns: 4 },
  'v0.3': { structure_format_score: 0.2, final_format_score: 0.1, retrieval_score: 0, score: 1 },
};

/** Facts that the environment declares before it is loaded. */
export const facts: EnvironmentFacts = {
  standInCorpus: (args) => {
    const { corpus, dataset } = parseArguments(args);
    return args['corpus'] === undefined && corpus !== dataset ? corpus : null;
  },
};

export function parseArguments(args: Readonly<Values>): SearchR1Arguments {
  const given = readArguments('search-r1', KINDS, args, SEARCH_ALIASES);
  const values: Values = { ...DEFAULTS, ...PRESETS[given.preset ?? 'default'], ...given };
  const get = <N extends Name>(name: N) => values[name] as ArgumentValue<N>;
  const source = searchSource(given, { dataset: get('dataset'), topk: get('topk') });
  const resolved: Values = { ...values, corpus: source.corpus };
  const { retriever_url: _url, embeddings_url: _embeddings, ...named } = resolved;
  return {
    ...source,
    named,
    maxTurns: get('max_turns'),
    limits: {
      responseTokens: get('max_response_length'),
      observationTokens: get('max_obs_length'),
      contextTokens: get('max_prompt_length'),
    },
    maxStartLength: get('max_start_length'),
    weights: {
      structureFormatScore: get('structure_format_score'),
      finalFormatScore: get('final_format_score'),
      retrievalScore: get('retrieval_score'),
      score: get('score'),
    },
    overlong: get('overlong'),
    scorer: get('scorer'),
    metrics: get('metrics'),
    stopAtAnswer: get('stop_at_answer'),
    tokens: { endOfTurn: get('end_of_turn'), bos: get('bos') },
  };
}
