/** Builds the environment from its arguments. The only module of this folder that loads rows and opens retrievers. */
import type { LoadContext } from 'vf-search';
import { loadQuestions, openSource, sourceNotices, vanishingNotices } from 'vf-search/environment-kit';
import { parseArguments } from './arguments.ts';
import { SearchO1Env } from './search-o1-env.ts';
import { pageSearch } from './web-pages.ts';

/** The commit of sunnynexus/Search-o1 that this environment reproduces. */
const UPSTREAM_COMMIT = '6ced48f';

/** Throws ConfigError for unknown or unusable arguments; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', ...rest }: Partial<LoadContext> = {},
): Promise<SearchO1Env> {
  const context = { ...rest, env, purpose };
  const parsed = parseArguments(args);
  const { rows, trainRows, split, notices, provenance } = await loadQuestions(parsed, context);
  const retriever = await openSource(parsed, context);
  const { named, dataset, topk, ...options } = parsed;
  try {
    return new SearchO1Env({
      ...options,
      rows,
      ...(trainRows === undefined ? {} : { trainRows }),
      search: pageSearch(retriever, { topk }),
      name: dataset,
      notices: [
        ...sourceNotices(parsed),
        ...notices,
        ...(comparesChoices(parsed.instruction) ? [] : vanishingNotices([...rows, ...(trainRows ?? [])])),
      ],
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

/** Choices and formulas keep their articles and punctuation when they are compared. */
function comparesChoices(instruction: string | undefined): boolean {
  return instruction === 'gpqa' || instruction === 'math';
}
