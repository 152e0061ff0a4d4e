/** The arguments of `loadEnvironment`, in snake_case or camelCase, with their defaults. Unknown or unusable ones are a ConfigError. */
import { ConfigError, type EnvironmentLimits, type TokenConventions } from 'vf-search';
import { isQaMetric, QA_METRIC_NAMES, type QaMetric } from 'vf-search/metrics/qa-metric-names';
import type { FormatWeights } from './reward.ts';
import type { Scorer } from './rubric.ts';
import { UPSTREAM_LIMITS } from './search-r1-env.ts';

type RetrievalEngine = 'bm25' | 'http' | 'serper';

export interface SearchR1Arguments {
  readonly dataset: string;
  /** Null if passages come from elsewhere: a `retrieverUrl`, a web engine. */
  readonly corpus: string | null;
  readonly retrieverUrl: string | null;
  /** Null derives it from the other two. */
  readonly engine: RetrievalEngine | null;
  readonly topk: number;
  readonly maxTurns: number;
  /** Null: `test` for evaluation, `train` for training. */
  readonly dataSplit: string | null;
  /** Null: all rows. */
  readonly dataLimit: number | null;
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
interface Kind<T> {
  /** Completes "must be". */
  readonly expected: string;
  accepts(value: unknown): value is T;
}

const TEXT: Kind<string> = { expected: 'a non-empty string', accepts: (v): v is string => typeof v === 'string' && v !== '' };
const NUMBER: Kind<number> = { expected: 'a finite number', accepts: (v): v is number => Number.isFinite(v) };
const FLAG: Kind<boolean> = { expected: 'true or false', accepts: (v): v is boolean => typeof v === 'boolean' };
const COUNT = integerFrom(1);

/** Every argument by its name on the command line. */
const KINDS = {
  preset: oneOf('default', 'paper', 'v0.3'),
  dataset: TEXT,
  corpus: TEXT,
  retriever_url: TEXT,
  engine: oneOf('bm25', 'http', 'serper'),
  topk: COUNT,
  max_turns: integerFrom(0),
  data_split: TEXT,
  data_limit: COUNT,
  max_response_length: COUNT,
  max_obs_length: COUNT,
  max_prompt_length: COUNT,
  max_start_length: COUNT,
  structure_format_score: NUMBER,
  final_format_score: NUMBER,
  retrieval_score: NUMBER,
  score: NUMBER,
  overlong: oneOf('stop', 'upstream'),
  scorer: oneOf('upstream', 'completion'),
  metrics: {
    expected: `a list of names out of ${QA_METRIC_NAMES.join(', ')}, each once`,
    accepts: (v): v is readonly QaMetric[] => Array.isArray(v) && v.every(isQaMetric) && new Set(v).size === v.length,
  },
  stop_at_answer: FLAG,
  end_of_turn: oneOf('dropped', 'kept'),
  bos: oneOf('model', 'never'),
} as const satisfies Record<string, Kind<unknown>>;
type Name = keyof typeof KINDS;
type ArgumentValue<N extends Name> = (typeof KINDS)[N] extends Kind<infer T> ? T : never;

const ALIASES: Readonly<Record<string, Name>> = { retriever_topk: 'topk' };

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

export function parseArguments(args: Readonly<Values>): SearchR1Arguments {
  const given = readGiven(args);
  const values: Values = { ...DEFAULTS, ...PRESETS[(given['preset'] as string | undefined) ?? 'default'], ...given };
  const get = <N extends Name>(name: N) => values[name] as ArgumentValue<N>;
  const optional = <N extends Name>(name: N) => (given[name] as ArgumentValue<N> | undefined) ?? null;
  const retrieverUrl = optional('retriever_url');
  const engine = optional('engine');
  if (optional('corpus') !== null && retrieverUrl !== null) {
    throw new ConfigError('corpus and retriever_url are both set, but passages can come from only one of them. Leave one out.');
  }
  const searchesCorpus = retrieverUrl === null && (engine ?? 'bm25') === 'bm25';
  const corpus = optional('corpus') ?? (searchesCorpus ? defaultCorpus(get('dataset')) : null);
  const resolved: Values = { ...values, corpus };
  const { retriever_url: _url, ...named } = resolved;
  return {
    named,
    dataset: get('dataset'),
    corpus,
    retrieverUrl,
    engine,
    topk: get('topk'),
    maxTurns: get('max_turns'),
    dataSplit: optional('data_split'),
    dataLimit: optional('data_limit'),
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

/** The checked arguments by their names on the command line. Null counts as missing. */
function readGiven(args: Readonly<Values>): Values {
  const given: Values = {};
  for (const [key, value] of Object.entries(args)) {
    const snake = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const name = ALIASES[snake] ?? snake;
    if (!Object.hasOwn(KINDS, name)) {
      throw new ConfigError(`search-r1 has no argument "${key}". Its arguments are ${[...Object.keys(KINDS), ...Object.keys(ALIASES)].join(', ')}.`);
    }
    if (value === null || value === undefined) continue;
    const kind: Kind<unknown> = KINDS[name as Name];
    if (!kind.accepts(value)) throw new ConfigError(`${key} must be ${kind.expected}, got ${JSON.stringify(value)}`);
    if (given[name] !== undefined && given[name] !== value) {
      throw new ConfigError(`${name} has two values, ${JSON.stringify(given[name])} and ${JSON.stringify(value)}. Set it only once.`);
    }
    given[name] = value;
  }
  return given;
}

/** The corpus that answers a data set's questions; nq-mini if the set has none of its own. */
function defaultCorpus(dataset: string): string {
  return dataset === 'fact-world' ? 'fact-world' : 'nq-mini';
}

function integerFrom(least: number): Kind<number> {
  return { expected: `an integer of at least ${least}`, accepts: (v): v is number => Number.isInteger(v) && (v as number) >= least };
}

function oneOf<const T extends string>(...choices: readonly T[]): Kind<T> {
  return { expected: choices.map((c) => `"${c}"`).join(' or '), accepts: (v): v is T => (choices as readonly unknown[]).includes(v) };
}
