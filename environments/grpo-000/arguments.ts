/**
 * The arguments of `loadEnvironment`, in snake_case or camelCase: the arguments for data and search are those of search-r1; the others are the specification's
 * configuration.
 */
import { choiceArgument, ConfigError, integerArgument, readArguments, textArgument } from 'vf-search';
import {
  type ArgumentKind,
  type ArgumentValues,
  engineArgument,
  PACE_ARGUMENTS,
  readDocument,
  SEARCH_ALIASES,
  SEARCH_ARGUMENTS,
  type SearchSource,
  searchSource,
} from 'vf-search/environment-kit';
import { CONFIG_KEYS, type ConfigKey, type ConfigWarning, idleNotices, parseConfig, type SearchR1Config } from './config.ts';
import type { PromptStyle } from './prompt.ts';

export interface GrpoArguments extends SearchSource {
  readonly engine: string;
  /** A file with keywords and texts, for the engine `mock`. Null: the environment's own. */
  readonly keywords: string | null;
  /** Null: all tokens. */
  readonly maxObsLength: number | null;
  readonly onFailure: 'throw' | 'empty';
  readonly prompt: PromptStyle;
  readonly config: SearchR1Config;
  /** Keys of the specification that were given, as arguments or in the file. */
  readonly givenKeys: readonly ConfigKey[];
  readonly warnings: readonly ConfigWarning[];
  /** Lines about given keys that change nothing. */
  readonly idle: readonly string[];
  /** The values in effect, by their names on the command line, for results files. Without URLs and keys. */
  readonly named: Readonly<Record<string, unknown>>;
}

type Values = Readonly<Record<string, unknown>>;

/** `parseConfig` checks the values, so that one message fits an argument and a file. */
const ANY: ArgumentKind<unknown> = { expected: 'a value', accepts: (v): v is unknown => v !== undefined };

const OWN = {
  ...SEARCH_ARGUMENTS,
  engine: engineArgument('mock'),
  keywords: textArgument,
  max_obs_length: integerArgument(1),
  on_failure: choiceArgument('throw', 'empty'),
  prompt: choiceArgument('document', 'search-r1'),
  config: {
    expected: 'the path of a YAML or JSON file, or an object',
    accepts: (v): v is string | Values => (typeof v === 'string' && v !== '') || (typeof v === 'object' && v !== null && !Array.isArray(v)),
  } satisfies ArgumentKind<string | Values>,
} as const;

type Variables = Readonly<Record<string, string | undefined>>;

const DEFAULTS = { dataset: 'rule-lookup', topk: 3 };

/** Throws ConfigError for unknown or unusable arguments, a config file that cannot be read, and a key that has two different values. */
export async function parseArguments(args: Values, env: Variables = {}): Promise<GrpoArguments> {
  const { given, config: parsedConfig, givenKeys, warnings, idle } = await parseConfigArguments(args, env);
  const { source, engine, keywords } = searchedSource(given);
  const { dataset, corpus, topk, dataSplit, dataLimit } = source;
  const { on_failure: onFailure = 'throw', prompt = 'document', max_obs_length = null } = given;
  const { openai_api_key: _key, ...config } = parsedConfig;
  return {
    ...source,
    engine,
    keywords,
    maxObsLength: max_obs_length,
    onFailure,
    prompt,
    config: parsedConfig,
    givenKeys,
    warnings,
    idle,
    named: {
      dataset,
      corpus,
      engine,
      keywords,
      topk,
      data_split: dataSplit,
      data_limit: dataLimit,
      max_obs_length,
      on_failure: onFailure,
      prompt,
      ...config,
    },
  };
}

/** The specification's configuration in the arguments, its keys that were given, and the arguments by their names. Throws like `parseArguments`. */
export async function parseConfigArguments(args: Values, env: Variables) {
  const kinds = { ...OWN, ...Object.fromEntries(CONFIG_KEYS.map((key) => [key, ANY])) };
  const given = readArguments('grpo-000', kinds, args, SEARCH_ALIASES);
  const settings = configSettings(await configOf(given.config), given);
  const parsed = parseConfig(settings, env);
  if (!parsed.ok) throw new ConfigError(`${parsed.problem}.`);
  const givenKeys = CONFIG_KEYS.filter((key) => Object.hasOwn(settings, key));
  return { given, config: parsed.config, warnings: parsed.warnings, givenKeys, idle: idleNotices(settings) };
}

/** The keyword base is an engine of its own: it has neither a corpus nor a URL. */
function searchedSource(given: ArgumentValues<typeof OWN>): Pick<GrpoArguments, 'engine' | 'keywords'> & { readonly source: SearchSource } {
  const { keywords = null, corpus, retriever_url: url } = given;
  const engine = given.engine ?? (url !== undefined ? 'http' : keywords !== null ? 'mock' : 'bm25');
  if (engine !== 'mock') {
    if (keywords !== null) throw new ConfigError(`keywords are for the engine mock, but the engine is ${engine}. Leave one out.`);
    return { source: searchSource({ ...given, engine }, DEFAULTS), engine, keywords };
  }
  if (corpus !== undefined || url !== undefined)
    throw new ConfigError('The engine mock answers from keywords, but a corpus or a retriever_url is set. Leave one out.');
  const { engine: _engine, ...rest } = given;
  const paced = Object.keys(PACE_ARGUMENTS).find((name) => Object.hasOwn(given, name));
  if (paced !== undefined) throw new ConfigError(`The engine mock sends no search to a server, so it does not use ${paced}. Leave it out.`);
  return { source: { ...searchSource(rest, DEFAULTS), corpus: null }, engine, keywords };
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
