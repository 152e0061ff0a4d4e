/** The arguments of `loadEnvironment`, in snake_case or camelCase: those of data and search as search-r1 has them, and the specification's configuration. */
import {
  type ArgumentKind,
  choiceArgument,
  ConfigError,
  integerArgument,
  readArguments,
  readDocument,
  textArgument,
  WEB_PROVIDERS,
  type WebProvider,
} from 'vf-search';
import { CONFIG_KEYS, type ConfigKey, type ConfigWarning, parseConfig, type SearchR1Config } from './config.ts';
import type { PromptStyle } from './prompt.ts';

type Engine = 'bm25' | 'http' | 'mock' | WebProvider;

export interface GrpoArguments {
  readonly dataset: string;
  /** Null if results come from elsewhere. */
  readonly corpus: string | null;
  readonly retrieverUrl: string | null;
  readonly engine: Engine;
  /** A file with keywords and texts, for the engine `mock`. Null: the environment's own. */
  readonly keywords: string | null;
  readonly topk: number;
  /** Null: `test` for evaluation, `train` for training. */
  readonly dataSplit: string | null;
  /** Null: all rows. */
  readonly dataLimit: number | null;
  /** Null: all tokens. */
  readonly maxObsLength: number | null;
  readonly onFailure: 'throw' | 'empty';
  readonly prompt: PromptStyle;
  readonly config: SearchR1Config;
  /** Keys of the specification that were given, as arguments or in the file. */
  readonly givenKeys: readonly ConfigKey[];
  readonly warnings: readonly ConfigWarning[];
  /** The values in effect, by their names on the command line, for results files. Without URLs and keys. */
  readonly named: Readonly<Record<string, unknown>>;
}

type Values = Readonly<Record<string, unknown>>;

/** `parseConfig` checks the values, so that one message fits an argument and a file. */
const ANY: ArgumentKind<unknown> = { expected: 'a value', accepts: (v): v is unknown => v !== undefined };

const OWN = {
  dataset: textArgument,
  corpus: textArgument,
  retriever_url: textArgument,
  engine: choiceArgument('bm25', 'http', 'mock', ...WEB_PROVIDERS),
  keywords: textArgument,
  topk: integerArgument(1),
  data_split: textArgument,
  data_limit: integerArgument(1),
  max_obs_length: integerArgument(1),
  on_failure: choiceArgument('throw', 'empty'),
  prompt: choiceArgument('document', 'search-r1'),
  config: {
    expected: 'the path of a YAML or JSON file, or an object',
    accepts: (v): v is string | Values => (typeof v === 'string' && v !== '') || (typeof v === 'object' && v !== null && !Array.isArray(v)),
  } satisfies ArgumentKind<string | Values>,
} as const;

type Variables = Readonly<Record<string, string | undefined>>;

/** Throws ConfigError for unknown or unusable arguments, a config file that cannot be read, and a key that has two different values. */
export async function parseArguments(args: Values, env: Variables = {}): Promise<GrpoArguments> {
  const { given, config: parsedConfig, givenKeys, warnings } = await parseConfigArguments(args, env);
  const { dataset = 'rule-lookup', corpus: named = null, retriever_url: retrieverUrl = null, keywords = null, topk = 3 } = given;
  if (named !== null && retrieverUrl !== null)
    throw new ConfigError('corpus and retriever_url are both set, but passages can come from only one of them. Leave one out.');
  const engine = given.engine ?? (retrieverUrl !== null ? 'http' : keywords !== null ? 'mock' : 'bm25');
  if (keywords !== null && engine !== 'mock') throw new ConfigError(`keywords are for the engine mock, but the engine is ${engine}. Leave one out.`);
  if (engine === 'mock' && (named !== null || retrieverUrl !== null))
    throw new ConfigError('The engine mock answers from keywords, but a corpus or a retriever_url is set. Leave one out.');
  const corpus = named ?? (engine === 'bm25' ? defaultCorpus(dataset) : null);
  const { on_failure: onFailure = 'throw', prompt = 'document', data_split = null, data_limit = null, max_obs_length = null } = given;
  const { openai_api_key: _key, ...config } = parsedConfig;
  return {
    dataset,
    corpus,
    retrieverUrl,
    engine,
    keywords,
    topk,
    dataSplit: data_split,
    dataLimit: data_limit,
    maxObsLength: max_obs_length,
    onFailure,
    prompt,
    config: parsedConfig,
    givenKeys,
    warnings,
    named: { dataset, corpus, engine, keywords, topk, data_split, data_limit, max_obs_length, on_failure: onFailure, prompt, ...config },
  };
}

/** The specification's configuration in the arguments, its keys that were given, and the arguments by their names. Throws as `parseArguments`. */
export async function parseConfigArguments(args: Values, env: Variables) {
  const kinds = { ...OWN, ...Object.fromEntries(CONFIG_KEYS.map((key) => [key, ANY])) };
  const given = readArguments('grpo-000', kinds, args, { retriever_topk: 'topk' });
  const settings = configSettings(await configOf(given.config), given);
  const parsed = parseConfig(settings, env);
  if (!parsed.ok) throw new ConfigError(`${parsed.problem}.`);
  return { given, config: parsed.config, warnings: parsed.warnings, givenKeys: CONFIG_KEYS.filter((key) => Object.hasOwn(settings, key)) };
}

async function configOf(config: unknown): Promise<Values> {
  if (typeof config !== 'string') return (config as Values | undefined) ?? {};
  const document = (await readDocument(config)) ?? {};
  if (typeof document !== 'object' || Array.isArray(document)) throw new ConfigError(`${config} must hold keys with values.`);
  return document as Values;
}

/** The keys of the specification, from the file and the arguments. */
function configSettings(file: Values, given: Values): Values {
  const settings: Record<string, unknown> = { ...file };
  for (const key of CONFIG_KEYS) {
    if (!Object.hasOwn(given, key)) continue;
    if (Object.hasOwn(file, key) && file[key] !== given[key])
      throw new ConfigError(`${key} is ${shown(key, file[key])} in config and ${shown(key, given[key])} as an argument. Set it only once.`);
    settings[key] = given[key];
  }
  return settings;
}

function shown(key: ConfigKey, value: unknown): string {
  return key === 'openai_api_key' ? 'set' : (JSON.stringify(value) ?? 'not set');
}

/** The corpus that answers a data set's questions; nq-mini for sets of other makers. */
function defaultCorpus(dataset: string): string {
  if (dataset === 'rule-lookup' || dataset === 'fact-world') return dataset;
  return 'nq-mini';
}
