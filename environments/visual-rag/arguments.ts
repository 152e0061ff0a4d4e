/** The arguments of `loadEnvironment`, in snake_case or camelCase, with their defaults. Unknown or unusable ones are a ConfigError. */
import { type ArgumentsCheck, choiceArgument, ConfigError, integerArgument, type LoadContext, readArguments, textArgument } from 'vf-search';
import {
  type ArgumentKind,
  type ArgumentValues,
  isEngineModule,
  PACE_ARGUMENTS,
  paceOf,
  type PixelRange,
  SEARCH_FORMS,
  type SearchForm,
  type SearchPace,
} from 'vf-search/environment-kit';
import { DEFAULT_UNIT, SHOWN_PIXELS } from './picture-sizes.ts';
import type { Observations } from './prompt.ts';
import { type Coefficients, COEFFICIENTS } from './rewards.ts';
import type { FormatGate } from './rubric.ts';

export interface VisualArguments {
  /** `deck-mini`, or a JSONL or Parquet file. */
  readonly dataset: string;
  /** The word sidecar of a data set of the user's own. */
  readonly pages: string | null;
  /** The folder of the pages' pictures. */
  readonly imagesFolder: string | null;
  /** A server that finds pages, instead of BM25 over the sidecar. */
  readonly searchUrl: string | null;
  /** Null: found out from the server. */
  readonly searchForm: SearchForm | null;
  /** For the form `pooling`: the model that makes vectors of pages. Null for the server's only one. */
  readonly searchModel: string | null;
  /** For the form `pooling`: the folder where the vectors are kept. Null for the user's cache. */
  readonly searchIndex: string | null;
  /** A module with a search engine of the user's own, instead of a server. */
  readonly engine: string | null;
  /** Empty if the arguments set none. */
  readonly pace: SearchPace;
  readonly observations: Observations;
  readonly topk: number;
  readonly maxTurns: number;
  readonly maxResponseLength: number;
  readonly phase: 1 | 2;
  readonly coefficients: Coefficients;
  readonly formatGate: FormatGate | null;
  readonly forcedStop: 'score' | 'zero';
  readonly ndcgLevel: 'page' | 'document';
  readonly judgeSees: 'answer' | 'evidence';
  readonly onJudgeFailure: 'drop' | 'zero';
  readonly evidence: 'newest' | 'upstream';
  readonly maxImages: number;
  readonly generatorMaxTokens: number;
  readonly legiblePx: number;
  readonly align: number | null;
  readonly shownPixels: PixelRange;
  readonly dataSplit: string | null;
  readonly dataLimit: number | null;
  /** Given arguments that change nothing in this phase. */
  readonly idle: readonly string[];
  /** The values in effect, by their names on the command line. Without URLs, which may contain credentials. */
  readonly named: Readonly<Record<string, unknown>>;
}

const positive: ArgumentKind<number> = { expected: 'a number above 0', accepts: (v): v is number => Number.isFinite(v) && (v as number) > 0 };
const coefficientsArgument: ArgumentKind<Partial<Coefficients>> = {
  expected: 'an object with numbers of at least 0 for judge, ndcg, format',
  accepts: (v): v is Partial<Coefficients> =>
    typeof v === 'object' &&
    v !== null &&
    !Array.isArray(v) &&
    Object.entries(v).every(([key, value]) => Object.hasOwn(COEFFICIENTS, key) && Number.isFinite(value) && (value as number) >= 0),
};

const pixelRangeArgument: ArgumentKind<readonly [number, number]> = {
  expected: 'two integers of at least 1, the least and the most pixels of a shown picture',
  accepts: (v): v is readonly [number, number] =>
    Array.isArray(v) && v.length === 2 && v.every((one) => Number.isSafeInteger(one) && one >= 1) && v[0] <= v[1],
};

/** An engine of the package finds no pages: it has no names of them. */
const moduleArgument: ArgumentKind<string> = {
  expected: 'the path of a module, such as "./my-engine.ts"',
  accepts: (v): v is string => typeof v === 'string' && isEngineModule(v),
};

const KINDS = {
  dataset: textArgument,
  pages: textArgument,
  images: textArgument,
  search_url: textArgument,
  search_form: choiceArgument(...SEARCH_FORMS),
  search_model: textArgument,
  search_index: textArgument,
  engine: moduleArgument,
  ...PACE_ARGUMENTS,
  observations: choiceArgument('ocr', 'image'),
  topk: integerArgument(1),
  max_turns: integerArgument(2),
  max_response_length: integerArgument(1),
  phase: { expected: '1 or 2', accepts: (v): v is 1 | 2 => v === 1 || v === 2 },
  coefficients: coefficientsArgument,
  format_gate: choiceArgument('none', 'ddai', 'vrag'),
  forced_stop: choiceArgument('score', 'zero'),
  ndcg_level: choiceArgument('page', 'document'),
  judge_sees: choiceArgument('answer', 'evidence'),
  on_judge_failure: choiceArgument('drop', 'zero'),
  evidence: choiceArgument('newest', 'upstream'),
  max_images: integerArgument(1),
  generator_max_tokens: integerArgument(1),
  legible_px: positive,
  align: integerArgument(0),
  shown_pixels: pixelRangeArgument,
  data_split: textArgument,
  data_limit: integerArgument(1),
} as const satisfies Record<string, ArgumentKind<unknown>>;

const DEFAULTS = {
  dataset: 'deck-mini',
  topk: 10,
  max_turns: 7,
  max_response_length: 2048,
  phase: 2,
  forced_stop: 'score',
  ndcg_level: 'page',
  judge_sees: 'answer',
  on_judge_failure: 'drop',
  evidence: 'newest',
  max_images: 8,
  generator_max_tokens: 3072,
  legible_px: 9,
  shown_pixels: [SHOWN_PIXELS.minPixels, SHOWN_PIXELS.maxPixels],
} as const;

type Given = ArgumentValues<typeof KINDS>;

/** About generator and judge, which phase 1 does not ask. */
const PHASE_2 = [
  'coefficients',
  'judge_sees',
  'on_judge_failure',
  'evidence',
  'max_images',
  'generator_max_tokens',
] as const satisfies readonly (keyof Given)[];

/** @param env for upstream's RM_JUDGE_COEF, RM_NDCG_COEF and RM_FORMAT_COEF, which an argument overrides */
function parseArguments(args: Readonly<Record<string, unknown>>, env: Readonly<Record<string, string | undefined>>): VisualArguments {
  const given: Given = readArguments('visual-rag', KINDS, args, { per_second: 'search_per_second' });
  // If a user names pictures, the model should see them.
  const values = { ...DEFAULTS, observations: given.images === undefined ? ('ocr' as const) : ('image' as const), ...given };
  const coefficients = { ...COEFFICIENTS, ...coefficientsOf(env), ...given.coefficients };
  const { search_url: searchUrl = null, ...named } = values;
  assertShowable(values.shown_pixels, values.align ?? null);
  assertUsed(given);
  return {
    named: { ...named, coefficients },
    dataset: values.dataset,
    pages: values.pages ?? null,
    imagesFolder: values.images ?? null,
    searchUrl,
    searchForm: values.search_form ?? null,
    searchModel: values.search_model ?? null,
    searchIndex: values.search_index ?? null,
    engine: values.engine ?? null,
    pace: paceOf(given),
    idle: values.phase === 1 ? PHASE_2.filter((name) => given[name] !== undefined) : [],
    observations: values.observations,
    topk: values.topk,
    maxTurns: values.max_turns,
    maxResponseLength: values.max_response_length,
    phase: values.phase,
    coefficients,
    formatGate: values.format_gate ?? null,
    forcedStop: values.forced_stop,
    ndcgLevel: values.ndcg_level,
    judgeSees: values.judge_sees,
    onJudgeFailure: values.on_judge_failure,
    evidence: values.evidence,
    maxImages: values.max_images,
    generatorMaxTokens: values.generator_max_tokens,
    legiblePx: values.legible_px,
    align: values.align ?? null,
    shownPixels: { minPixels: values.shown_pixels[0], maxPixels: values.shown_pixels[1] },
    dataSplit: values.data_split ?? null,
    dataLimit: values.data_limit ?? null,
  };
}

/** Throws ConfigError for an argument about a server or an engine that is not named. */
function assertUsed(given: Given): void {
  if (given.search_url !== undefined && given.engine !== undefined)
    throw new ConfigError('search_url and engine are both set, but pages can be found by only one of them. Leave one out.');
  const ofServer = ['search_form', 'search_model', 'search_index'] as const;
  const paced = Object.keys(PACE_ARGUMENTS) as (keyof typeof PACE_ARGUMENTS)[];
  const idle = given.search_url !== undefined ? [] : given.engine !== undefined ? ofServer : [...ofServer, ...paced];
  const name = idle.find((each) => given[each] !== undefined);
  if (name !== undefined) throw new ConfigError(`${name} is about the server at search_url, but no search_url is set. Set it, or leave ${name} out.`);
}

/** The checked arguments. Throws ConfigError also for values that a training cannot use. */
export function argumentsFor(
  purpose: LoadContext['purpose'],
  args: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): VisualArguments {
  const parsed = parseArguments(args, env);
  if (purpose === 'training' && parsed.observations === 'image' && parsed.align === 0)
    throw new ConfigError('align 0 shows sizes that the policy server resizes, so that its pictures cannot be trained on. Leave align out to train.');
  if (purpose === 'training' && parsed.onJudgeFailure === 'zero')
    throw new ConfigError(
      'on_judge_failure "zero" gives episodes 0 where the judge failed, which a policy would learn from. Use it in evaluations only, and "drop" to train.',
    );
  return parsed;
}

/** Checks arguments without loading rows, for commands that play the environment later. */
export const checkArguments: ArgumentsCheck = (args, { env, purpose }) => void argumentsFor(purpose, args, env);

/** The smallest picture has one unit on each side. */
function assertShowable([, most]: readonly [number, number], align: number | null): void {
  const unit = Math.max(1, align ?? DEFAULT_UNIT);
  if (most >= unit * unit) return;
  throw new ConfigError(
    `shown_pixels allows at most ${most} pixels, but the smallest picture has ${unit} × ${unit}, ${unit * unit} in all, because sides are multiples of ${unit}. Raise the second number.`,
  );
}

function coefficientsOf(env: Readonly<Record<string, string | undefined>>): Partial<Coefficients> {
  const named = [
    ['judge', 'RM_JUDGE_COEF'],
    ['ndcg', 'RM_NDCG_COEF'],
    ['format', 'RM_FORMAT_COEF'],
  ] as const;
  return Object.fromEntries(
    named.flatMap(([name, variable]) => {
      const text = env[variable];
      if (text === undefined || text.trim() === '') return [];
      const value = Number(text);
      if (!Number.isFinite(value) || value < 0)
        throw new ConfigError(`$${variable} must be a number of at least 0, got ${JSON.stringify(text.slice(0, 50))}`);
      return [[name, value]];
    }),
  );
}
