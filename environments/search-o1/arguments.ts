/** The arguments of `loadEnvironment`, in snake_case or camelCase, with their defaults. Unknown or unusable ones are a ConfigError. */
import { choiceArgument, integerArgument, readArguments } from 'vf-search';
import { type EnvironmentLimits, SEARCH_ALIASES, SEARCH_ARGUMENTS, type SearchSource, searchSource } from 'vf-search/environment-kit';
import { type Instruction, type ModelName, searchLimit } from './prompt.ts';
import { type Scorer, SEARCH_O1_METRICS, type SearchO1Metric } from './rubric.ts';
import { MAX_TURN, REFINE_TOKENS, RESPONSE_TOKENS } from './search-o1-env.ts';
import { MAX_DOC_LEN } from './web-pages.ts';

export interface SearchO1Arguments extends SearchSource {
  readonly instruction: Instruction;
  readonly modelName: ModelName | null;
  readonly maxSearchLimit: number;
  readonly maxTurn: number;
  readonly maxDocLen: number;
  readonly refineTokens: number;
  readonly refineTemperature: number;
  readonly metric: SearchO1Metric;
  readonly scorer: Scorer;
  readonly limits: EnvironmentLimits;
  /** The values in effect, by their names on the command line, for results files. Without URLs, which may contain credentials. */
  readonly named: Readonly<Record<string, unknown>>;
}

const KINDS = {
  ...SEARCH_ARGUMENTS,
  instruction: choiceArgument('singleqa', 'multiqa', 'math', 'gpqa'),
  model_name: choiceArgument('qwq', 'llama'),
  max_search_limit: integerArgument(0),
  max_turn: integerArgument(1),
  max_doc_len: integerArgument(1),
  max_refine_length: integerArgument(1),
  refine_temperature: { expected: 'a number of at least 0', accepts: (v: unknown): v is number => Number.isFinite(v) && (v as number) >= 0 },
  metric: choiceArgument(...SEARCH_O1_METRICS),
  scorer: choiceArgument('completion', 'upstream'),
  max_response_length: integerArgument(1),
  max_obs_length: integerArgument(1),
  max_prompt_length: integerArgument(1),
} as const;

/** The data sets, under upstream's and FlashRAG's names, for which upstream uses another instruction than `singleqa`. */
const INSTRUCTIONS: Readonly<Record<string, Instruction>> = {
  hotpotqa: 'multiqa',
  musique: 'multiqa',
  bamboogle: 'multiqa',
  '2wiki': 'multiqa',
  '2wikimultihopqa': 'multiqa',
  math500: 'math',
  aime: 'math',
  amc: 'math',
  gpqa: 'gpqa',
};

export function parseArguments(args: Readonly<Record<string, unknown>>): SearchO1Arguments {
  const given = readArguments('search-o1', KINDS, args, SEARCH_ALIASES);
  const source = searchSource(given, { dataset: 'nq-mini', topk: 10 });
  const instruction = given.instruction ?? INSTRUCTIONS[source.dataset] ?? 'singleqa';
  const values = {
    instruction,
    model_name: given.model_name ?? null,
    max_search_limit: given.max_search_limit ?? searchLimit(instruction),
    max_turn: given.max_turn ?? MAX_TURN,
    max_doc_len: given.max_doc_len ?? MAX_DOC_LEN,
    max_refine_length: given.max_refine_length ?? REFINE_TOKENS,
    refine_temperature: given.refine_temperature ?? 0,
    metric: given.metric ?? 'em',
    scorer: given.scorer ?? 'completion',
    max_response_length: given.max_response_length ?? RESPONSE_TOKENS,
    max_obs_length: given.max_obs_length ?? null,
    max_prompt_length: given.max_prompt_length ?? null,
  };
  const { dataset, corpus, engine, topk, dataSplit, dataLimit } = source;
  return {
    ...source,
    instruction,
    modelName: values.model_name,
    maxSearchLimit: values.max_search_limit,
    maxTurn: values.max_turn,
    maxDocLen: values.max_doc_len,
    refineTokens: values.max_refine_length,
    refineTemperature: values.refine_temperature,
    metric: values.metric,
    scorer: values.scorer,
    limits: {
      responseTokens: values.max_response_length,
      observationTokens: values.max_obs_length ?? Infinity,
      contextTokens: values.max_prompt_length ?? Infinity,
    },
    named: { dataset, corpus, engine, topk, data_split: dataSplit, data_limit: dataLimit, ...values },
  };
}
