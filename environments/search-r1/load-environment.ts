/** Builds the environment from its arguments. The only module of this folder that loads rows and opens retrievers. */
import { type LoadContext, loadQuestions, openSource, type QuestionRow, sourceNotices } from 'vf-search';
import { parseArguments, type SearchR1Arguments } from './arguments.ts';
import { makePrefix } from './prompt.ts';
import { SearchR1Env } from './search-r1-env.ts';

/** The commit of PeterGriffinJin/Search-R1 that this environment reproduces. */
const UPSTREAM_COMMIT = 'a14dc3a4ffc6fe88c1e95038d9738e21ba3f7a06';

/** Throws ConfigError for unknown or unusable arguments; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', ...rest }: Partial<LoadContext> = {},
): Promise<SearchR1Env> {
  const context = { ...rest, env, purpose };
  const parsed = parseArguments(args);
  const { rows, trainRows, split, provenance } = await loadQuestions(parsed, context);
  const retriever = await openSource(parsed, context);
  const { topk, maxTurns, limits, weights, scorer, metrics, overlong, stopAtAnswer, tokens } = parsed;
  try {
    return new SearchR1Env({
      rows,
      ...(trainRows === undefined ? {} : { trainRows }),
      retriever,
      topk,
      maxTurns,
      limits,
      weights,
      scorer,
      metrics,
      overlong,
      stopAtAnswer,
      tokens,
      name: parsed.dataset,
      notices: noticesFor(parsed, rows),
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
