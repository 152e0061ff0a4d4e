/** An environment over a keyword base or an engine of the test's own, and a play of it against a scripted policy. */
import { type Played, playEpisode, Random, type RewardContext, type Score } from 'vf-search';
import { GrpoEnv, type GrpoEnvOptions, type GrpoRow, MockSearchEngine, type SearchEngine } from 'vf-search/environments/grpo-000';
import { ScriptedClient, type ScriptedOptions } from '../../../src/clients/scripted.ts';

export const QUESTION = { id: 'q1', question: 'When do quiet hours begin?', golden_answers: ['22:00'] };
const RULES = { 'quiet hours': 'Quiet hours begin at 22:00.' };

/** Remembers what it was asked. */
export function askedEngine(answer: (query: string) => string | Promise<string>): SearchEngine & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    name: 'asked',
    asked,
    search: async (query) => {
      asked.push(query);
      return answer(query);
    },
    close: async () => {},
  };
}

export function environmentWith(options: Partial<GrpoEnvOptions> = {}): GrpoEnv {
  return new GrpoEnv({ rows: [QUESTION], engine: new MockSearchEngine(RULES), ...options });
}

export interface PlayedEpisode {
  readonly played: Played;
  readonly row: GrpoRow;
  readonly score: () => Promise<Score>;
}

/** Plays the first row; the policy writes `turns`, one token per code point. */
export async function play(environment: GrpoEnv, turns: readonly string[], script: Omit<ScriptedOptions, 'turns'> = {}): Promise<PlayedEpisode> {
  const client = new ScriptedClient({ tokenizer: 'code-points', ...script, turns });
  const row = environment.eval.at(0);
  const { signal } = new AbortController();
  await using lease = await client.lease(signal);
  const played = await playEpisode({
    environment,
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

function contextOf(environment: GrpoEnv, row: GrpoRow, { segments, stop, state }: Played): RewardContext<GrpoRow> {
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
