/** Adapter for grpo-000's transcripts: the real rollout loop plays the environment with a scripted policy and a keyword base. */
import { Random } from 'vf-search';
import { type Played, playEpisode } from 'vf-search/rollouts';
import { finalAnswer, GrpoEnv, judgedText, MockSearchEngine, toTrajectory } from 'vf-search/environments/grpo-000';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import type { Adapter } from './vectors.ts';

interface Input {
  readonly query: string;
  readonly knowledge_base: Readonly<Record<string, string>>;
  readonly samples: readonly string[];
  /** Of the whole trajectory; a token is a code point. */
  readonly max_tokens: number;
  readonly prompt_length: number;
  readonly ground_truth: string;
}

export const grpoTranscriptAdapter: Adapter = {
  actual: async (input: Input) => {
    const searches: string[] = [];
    const environment = environmentOf(input, searches);
    const played = await play(environment, input);
    const isBlank = played.error?.type === 'EnvironmentError' && played.generations.length === 0;
    if (played.error && !isBlank) throw new Error(played.error.chain);
    const view = toTrajectory({ ...played, reward: null }, { tokenText: (id) => String.fromCodePoint(id) });
    return {
      text: view.generated_text,
      segments: played.segments.map(({ kind, text }) => [kind, text]),
      searches,
      // A rollout without a reward has an error, and so another stop than the vectors' word for a blank question.
      stop: isBlank ? 'completed' : played.stop,
      generations: played.generations.length,
      final_answer: finalAnswer(judgedText(played.segments)),
      reward: isBlank ? null : await rewardOf(environment, played),
      generated_positions: ranges(played),
    };
  },
};

function environmentOf({ query, knowledge_base, max_tokens, ground_truth }: Input, searches: string[]): GrpoEnv {
  const mock = new MockSearchEngine(knowledge_base);
  return new GrpoEnv({
    rows: [{ id: 'case', question: query, golden_answers: [ground_truth] }],
    engine: {
      name: mock.name,
      search: (asked) => {
        searches.push(asked);
        return mock.search(asked);
      },
      close: () => mock.close(),
    },
    config: { max_tokens },
  });
}

async function play(environment: GrpoEnv, { samples, prompt_length }: Input): Promise<Played> {
  const client = new ScriptedClient({ turns: samples, template: () => 'x'.repeat(prompt_length), tokenizer: 'code-points' });
  const { signal } = new AbortController();
  return playEpisode({
    environment,
    row: environment.eval.at(0),
    lease: await client.lease(signal),
    capabilities: client.capabilities,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    random: Random.fromSeed(0),
    signal,
  });
}

async function rewardOf(environment: GrpoEnv, { segments, stop, state }: Played): Promise<number> {
  const { rubric } = environment;
  const row = environment.eval.at(0);
  const text = (only: (kind: string) => boolean) => segments.flatMap((s) => (only(s.kind) ? [s.text] : [])).join('');
  const context = { row, prompt: row.prompt, segments, scoredText: text(() => true), modelText: text((kind) => kind === 'model'), stop, state };
  const score = await rubric.score({ ...context, parser: rubric.parser, models: {}, signal: new AbortController().signal });
  return score.reward;
}

/** [start, end] of the tokens of each generation, after its segments. */
function ranges({ branches: [branch] }: Played): [number, number][] {
  return (branch?.tokens?.segments ?? []).flatMap(({ kind, start, end }) => (kind === 'model' ? [[start, end] as [number, number]] : []));
}
