/** The common part of environments that search: the arguments of their data and their retriever, the rows by purpose, the retriever itself. */
import { type ArgumentKind, type ArgumentValues, choiceArgument, integerArgument, textArgument } from '../core/environment-arguments.ts';
import { ConfigError } from '../core/errors.ts';
import { loadRows, type RowsProvenance } from '../data/load-rows.ts';
import { denseNotices } from '../retrieval/dense/dense-notices.ts';
import { splitNotices } from '../data/split-notices.ts';
import type { Retriever } from '../retrieval/retriever.ts';
import { normalizeAnswer } from '../metrics/normalize-answer.ts';
import { isObject } from '../schemas/is-object.ts';
import { QUESTION_COLUMNS, type QuestionColumns, type QuestionRow } from '../schemas/question-row.ts';
import { isEngineModule } from './open-engine-module.ts';
import { openRetriever, type OpenRetrieverOptions, RETRIEVAL_ENGINES } from './open-retriever.ts';
import { PACE_ARGUMENTS, paceOf, type SearchPace } from './search-pace.ts';

/** Names of columns, such as `{"question": "q", "answer": "a"}`. */
export const columnsArgument: ArgumentKind<QuestionColumns> = {
  expected: `an object with names of columns for ${QUESTION_COLUMNS.join(', ')}`,
  accepts: (value): value is QuestionColumns =>
    isObject(value) &&
    Object.entries(value).every(([key, name]) => QUESTION_COLUMNS.some((known) => known === key) && typeof name === 'string' && name !== ''),
};

/** An engine of the package, one of `more`, or the path of a module. */
export function engineArgument(...more: readonly string[]): ArgumentKind<string> {
  const named = choiceArgument(...more, ...RETRIEVAL_ENGINES);
  return {
    expected: `${named.expected} or the path of a module, such as "./my-engine.ts"`,
    accepts: (v): v is string => named.accepts(v) || (typeof v === 'string' && isEngineModule(v)),
  };
}

/** The arguments by their names on the command line, for `readArguments`. */
export const SEARCH_ARGUMENTS = {
  dataset: textArgument,
  columns: columnsArgument,
  corpus: textArgument,
  retriever_url: textArgument,
  engine: engineArgument(),
  ...PACE_ARGUMENTS,
  collection: textArgument,
  embeddings_url: textArgument,
  embeddings_model: textArgument,
  query_prefix: textArgument,
  topk: integerArgument(1),
  data_split: textArgument,
  data_limit: integerArgument(1),
} as const;

/** Other names of these arguments. */
export const SEARCH_ALIASES = { retriever_topk: 'topk', per_second: 'search_per_second' } as const;

/** The source of questions and passages. */
export interface SearchSource extends Pick<OpenRetrieverOptions, 'collection' | 'queryPrefix' | 'embeddingsUrl' | 'embeddingsModel'> {
  readonly dataset: string;
  /** Columns of the data set that have other names than the known ones. */
  readonly columns?: QuestionColumns;
  /** Null if passages come from elsewhere: a `retrieverUrl`, a web engine. */
  readonly corpus: string | null;
  readonly retrieverUrl: string | null;
  /** Null derives it from the other two. */
  readonly engine: string | null;
  /** Empty if the arguments set none. */
  readonly pace: SearchPace;
  readonly topk: number;
  /** Null: `test` for evaluation, `train` for training. */
  readonly dataSplit: string | null;
  /** Null: all rows. */
  readonly dataLimit: number | null;
}

/** Bundled sets with passages of their own. */
const OWN_CORPORA: readonly string[] = ['nq-mini', 'fact-world', 'rule-lookup'];

/**
 * The source that arguments name; `given` has values of `SEARCH_ARGUMENTS`. The corpus is the data set's own by default, and nq-mini for a set without one. Throws ConfigError if passages would come from
 * two places.
 */
export function searchSource(
  given: ArgumentValues<typeof SEARCH_ARGUMENTS>,
  defaults: { readonly dataset: string; readonly topk: number },
): SearchSource {
  const { dataset = defaults.dataset, topk = defaults.topk, corpus = null, retriever_url: retrieverUrl = null, engine = null } = given;
  if (corpus !== null && retrieverUrl !== null)
    throw new ConfigError('corpus and retriever_url are both set, but passages can come from only one of them. Leave one out.');
  const searchesCorpus = retrieverUrl === null && (engine ?? 'bm25') === 'bm25';
  return {
    dataset,
    ...(given.columns === undefined ? {} : { columns: given.columns }),
    corpus: corpus ?? (searchesCorpus ? (OWN_CORPORA.includes(dataset) ? dataset : 'nq-mini') : null),
    retrieverUrl,
    engine,
    ...(given.collection === undefined ? {} : { collection: given.collection }),
    ...(given.query_prefix === undefined ? {} : { queryPrefix: given.query_prefix }),
    ...(given.embeddings_url === undefined ? {} : { embeddingsUrl: given.embeddings_url }),
    ...(given.embeddings_model === undefined ? {} : { embeddingsModel: given.embeddings_model }),
    pace: paceOf(given),
    topk,
    dataSplit: given.data_split ?? null,
    dataLimit: given.data_limit ?? null,
  };
}

/** The context of `loadEnvironment` with its defaults. */
export interface SearchContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  readonly purpose: 'evaluation' | 'training';
}

/** Opens the retriever of a source and makes sure that it answers. */
export function openSource(
  { corpus, retrieverUrl, engine, pace, collection, queryPrefix, embeddingsUrl, embeddingsModel }: Omit<SearchSource, keyof QuestionSource | 'topk'>,
  { env, signal }: SearchContext,
): Promise<Retriever> {
  const chosen = { signal, corpus, retrieverUrl, engine, collection, queryPrefix, embeddingsUrl, embeddingsModel };
  const given: OpenRetrieverOptions = Object.fromEntries(Object.entries(chosen).filter(([, value]) => (value ?? null) !== null));
  return openRetriever({ env, mustAnswer: true, ...pace, ...given });
}

interface QuestionSource extends Pick<SearchSource, 'dataset' | 'columns' | 'dataSplit' | 'dataLimit'> {
  /** False: rows may lack golden answers. @default true */
  readonly needsAnswers?: boolean;
}

interface LoadedQuestions {
  /** The rows for evaluation, in training the held-out ones. */
  readonly rows: readonly QuestionRow[];
  /** Only in training. */
  readonly trainRows?: readonly QuestionRow[];
  /** The split that `data_split` names or stands for. */
  readonly split: string;
  /** Lines for the user: rows for training and evaluation that are not apart, repeated ids, doubtful answers. */
  readonly notices: readonly string[];
  /** For the results file. */
  readonly provenance: { readonly questions: RowsProvenance; readonly training_questions?: RowsProvenance };
}

/** Loads the rows of `data_split`: by default `test`, in training `train`, and `test` for the held-out rows. */
export async function loadQuestions(
  { dataset, columns, dataSplit, dataLimit, needsAnswers = true }: QuestionSource,
  { env, signal, purpose }: SearchContext,
): Promise<LoadedQuestions> {
  const options = {
    dataset,
    env,
    needsAnswers,
    ...(columns === undefined ? {} : { columns }),
    ...(signal === undefined ? {} : { signal }),
    ...(dataLimit === null ? {} : { limit: dataLimit }),
  };
  const split = dataSplit ?? (purpose === 'training' ? 'train' : 'test');
  const evaluated = await loadRows({ ...options, split: purpose === 'training' ? 'test' : split });
  const { rows, provenance: questions } = evaluated;
  if (purpose !== 'training')
    return { rows, split, notices: [...splitNotices(questions.sources, split), ...evaluated.notices], provenance: { questions } };
  const training = await loadRows({ ...options, split });
  const notices = [...new Set([...splitNotices(questions.sources, 'test', training.provenance.sources), ...evaluated.notices, ...training.notices])];
  return { rows, trainRows: training.rows, split, notices, provenance: { questions, training_questions: training.provenance } };
}

/** Lines that explain how far the numbers of a source are comparable. */
export function sourceNotices({ dataset, corpus, engine }: SearchSource): string[] {
  const notices: string[] = [];
  if (dataset === 'nq-mini' || corpus === 'nq-mini')
    notices.push('nq-mini is a sample of Natural Questions over 8,346 passages: its numbers are not comparable with published NQ.');
  if (corpus === 'nq-mini' && dataset !== 'nq-mini')
    notices.push(`The questions of ${dataset} are answered from the corpus nq-mini; name a corpus or a retriever_url that covers them.`);
  if (corpus !== null && (engine === 'dense' || engine === 'hybrid')) notices.push(...denseNotices(corpus));
  return notices;
}

/** A line about golden answers that have nothing left to compare once case, articles and punctuation are removed, as scores of questions do; none without such answers. */
export function vanishingNotices(rows: readonly QuestionRow[]): string[] {
  const vanishing = rows.flatMap(({ id, golden_answers: answers }) =>
    answers.filter((answer) => normalizeAnswer(answer) === '').map((answer) => ({ id, answer })),
  );
  const [first] = vanishing;
  if (first === undefined) return [];
  const answers = vanishing.length === 1 ? '1 golden answer is' : `${vanishing.length} golden answers are`;
  return [
    `${answers} empty without case, articles and punctuation, such as ${JSON.stringify(first.answer)} of the row ${first.id}: any reply contains them (subem), and em finds them only in a reply that is empty in the same way. Reword them.`,
  ];
}
