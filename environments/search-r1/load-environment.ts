/** Builds the environment from its arguments. The only module of this folder that loads rows and opens retrievers. */
import type { LoadContext, QuestionRow } from 'vf-search';
import { loadQuestions, openSource, sourceNotices, vanishingNotices } from 'vf-search/environment-kit';
import { parseArguments, type SearchR1Arguments } from './arguments.ts';
import { makePrefix } from './prompt.ts';
import { SearchR1Env, type SearchR1Options } from './search-r1-env.ts';

/** The commit of PeterGriffinJin/Search-R1 that this environment reproduces. */
const UPSTREAM_COMMIT = 'a14dc3a4ffc6fe88c1e95038d9738e21ba3f7a06';

/** Throws ConfigError for unknown or unusable arguments; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', ...rest }: Partial<LoadContext> = {},
): Promise<SearchR1Env> {
  const context = { ...rest, env, purpose };
  const parsed = parseArguments(args);
  const { rows, trainRows, split, notices, provenance } = await loadQuestions(parsed, context);
  const retriever = await openSource(parsed, context);
  try {
    return new SearchR1Env({
      ...environmentOptions(parsed, { rows, ...(trainRows === undefined ? {} : { trainRows }) }),
      retriever,
      notices: [...noticesFor(parsed, rows), ...notices, ...vanishingNotices([...rows, ...(trainRows ?? [])])],
      provenance: {
        upstream: `PeterGriffinJin/Search-R1@${UPSTREAM_COMMIT}`,
        ...provenance,
        retriever: retriever.name,
        arguments: { data_split: split, ...parsed.named },
      },
    });
  } catch (error) {
    await retriever.close();
    throw error;
  }
}

/** The options of the environment for given arguments and rows: plain data, without the retriever. */
export function environmentOptions(parsed: SearchR1Arguments, rows: Pick<SearchR1Options, 'rows' | 'trainRows'>): Omit<SearchR1Options, 'retriever'> {
  const { topk, maxTurns, limits, weights, scorer, metrics, overlong, stopAtAnswer, tokens, dataset: name } = parsed;
  return { ...rows, topk, maxTurns, limits, weights, scorer, metrics, overlong, stopAtAnswer, tokens, name };
}

function noticesFor(parsed: SearchR1Arguments, rows: readonly QuestionRow[]): string[] {
  const { overlong, maxStartLength } = parsed;
  const notices = sourceNotices(parsed);
  if (overlong === 'upstream') {
    notices.push('overlong is "upstream": episodes that exceed the context are truncated as upstream does; they are never exported or trained on.');
  }
  // Without a tokenizer, the number of bytes is an upper bound on the tokens.
  const long = rows.filter(({ question }) => Buffer.byteLength(makePrefix(question)) > maxStartLength).length;
  if (long > 0) {
    notices.push(
      `${long} of ${rows.length} prompts may exceed max_start_length ${maxStartLength}: upstream would score only their tail; here they are scored whole.`,
    );
  }
  return notices;
}
