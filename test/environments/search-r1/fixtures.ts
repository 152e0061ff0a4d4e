/** An environment over given passages, and a play of it against a scripted policy. */
import { type Passage, type Played, playEpisode, Random, type RewardContext, type Retriever, type Score } from 'vf-search';
import { SearchR1Env, type SearchR1Options, type SearchR1Row } from 'vf-search/environments/search-r1';
import { ScriptedClient, type ScriptedOptions } from '../../../src/clients/scripted.ts';

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

export interface PlayedEpisode {
  readonly played: Played;
  readonly row: SearchR1Row;
  /** Judges what was played with the environment's rubric. */
  readonly score: () => Promise<Score>;
}

/** Plays one row of the environment, the first by default; the policy writes `turns`, by default one token per code point. */
export async function play(
  environment: SearchR1Env,
  turns: readonly string[],
  options: Omit<ScriptedOptions, 'turns'> & { readonly ignoresStop?: boolean; readonly index?: number } = {},
): Promise<PlayedEpisode> {
  const { ignoresStop = false, index = 0, ...script } = options;
  const client = new ScriptedClient({ tokenizer: 'code-points', ...script, turns });
  const row = environment.eval.at(index);
  const { signal } = new AbortController();
  const { id, train, eval: rows, rubric, limits, turnFormat, overlong } = environment;
  const start: SearchR1Env['start'] = async (r, o) => {
    const episode = await environment.start(r, o);
    return ignoresStop ? { ...episode, stop: [] } : episode;
  };
  await using lease = await client.lease(signal);
  const played = await playEpisode({
    environment: { id, train, eval: rows, rubric, limits, turnFormat, overlong, start, close: () => environment.close() },
    row,
    lease,
    capabilities: client.capabilities,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    random: Random.fromSeed(1),
    signal,
  });
  return { played, row, score: () => environment.rubric.score(contextOf(environment, row, played)) };
}

function contextOf(environment: SearchR1Env, row: SearchR1Row, { segments, stop, state }: Played): RewardContext<SearchR1Row> {
  const join = (kept: Played['segments']) => kept.map((s) => s.text).join('');
  return {
    row,
    prompt: row.prompt,
    segments,
    scoredText: join(segments),
    modelText: join(segments.filter((s) => s.kind === 'model')),
    stop,
    state,
    parser: environment.rubric.parser,
    models: {},
    signal: new AbortController().signal,
  };
}
