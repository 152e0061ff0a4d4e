/** An environment over given passages, and a play of it against a scripted policy. */
import type { Passage, Retriever } from 'vf-search';
import { SearchR1Env, type SearchR1Options, type SearchR1Row } from 'vf-search/environments/search-r1';
import { type PlayedEpisode, type PlayOptions, playScript } from '../play-script.ts';

export const QUESTION = {
  id: 'q1',
  question: 'which city is the eiffel tower in',
  golden_answers: ['Paris'],
  data_source: 'nq',
  index: 0,
  split: 'test',
};

/** Answers every query with the same passages and remembers what it was asked. */
export function fixedRetriever(passages: readonly Passage[]): Retriever & { readonly asked: { queries: readonly string[]; topk: number }[] } {
  const asked: { queries: readonly string[]; topk: number }[] = [];
  return {
    name: 'fixed',
    asked,
    search: async (queries, { topk }) => {
      asked.push({ queries, topk });
      return queries.map(() => passages);
    },
    close: async () => {},
  };
}

export const PARIS: Passage = { contents: '"Eiffel Tower"\nThe Eiffel Tower is in Paris, France.' };

export function environmentWith(options: Partial<SearchR1Options> = {}): SearchR1Env {
  return new SearchR1Env({ rows: [QUESTION], retriever: fixedRetriever([PARIS]), ...options });
}

/** Plays a row against a policy that writes `turns`. */
export function play(
  environment: SearchR1Env,
  turns: readonly string[],
  { ignoresStop = false, ...options }: PlayOptions & { readonly ignoresStop?: boolean } = {},
): Promise<PlayedEpisode<SearchR1Row>> {
  if (!ignoresStop) return playScript(environment, turns, options);
  const { id, eval: rows, rubric, limits, turnFormat, overlong } = environment;
  const start: SearchR1Env['start'] = async (row, o) => ({ ...(await environment.start(row, o)), stop: [] });
  return playScript({ id, train: rows, eval: rows, rubric, limits, turnFormat, overlong, start, close: () => environment.close() }, turns, options);
}
