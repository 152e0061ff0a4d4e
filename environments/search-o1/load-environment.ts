/** Builds the environment from its arguments. The only module of this folder that loads rows and opens retrievers. */
import { loadQuestions, openSource, sourceNotices } from 'vf-search';
import { parseArguments } from './arguments.ts';
import { SearchO1Env } from './search-o1-env.ts';
import { pageSearch } from './web-pages.ts';

/** The commit of sunnynexus/Search-o1 that this environment reproduces. */
const UPSTREAM_COMMIT = '6ced48f';

export interface LoadContext {
  /** Environment variables with tokens and keys: `HF_TOKEN`, `SERPER_API_KEY`, ... @default those of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  /** `training` also loads the rows to train on, from `data_split` (by default `train`); held-out rows are then those of `test`. @default 'evaluation' */
  readonly purpose?: 'evaluation' | 'training';
}

/** Throws ConfigError for unknown or unusable arguments; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', ...rest }: LoadContext = {},
): Promise<SearchO1Env> {
  const context = { ...rest, env, purpose };
  const parsed = parseArguments(args);
  const { rows, trainRows, split, provenance } = await loadQuestions(parsed, context);
  const retriever = await openSource(parsed, context);
  const { named, dataset, topk, ...options } = parsed;
  try {
    return new SearchO1Env({
      ...options,
      rows,
      ...(trainRows === undefined ? {} : { trainRows }),
      search: pageSearch(retriever, { topk }),
      name: dataset,
      notices: sourceNotices(parsed),
      provenance: {
        upstream: `sunnynexus/Search-o1@${UPSTREAM_COMMIT}`,
        ...provenance,
        retriever: retriever.name,
        arguments: { ...named, data_split: split },
      },
    });
  } catch (error) {
    await retriever.close();
    throw error;
  }
}
