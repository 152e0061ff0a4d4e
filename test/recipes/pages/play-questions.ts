/** Plays questions of the page world with turns that are given, judged by the environment with its built-in reader. */
import { contentText } from 'vf-search';
import { openRoleModels, runRollouts } from 'vf-search/rollouts';
import { loadEnvironment, roles } from 'vf-search/environments/visual-rag';
import { ScriptedClient } from '../../../src/clients/scripted.ts';

export interface Asked {
  readonly town: string;
  readonly label: string;
}

export interface PlayedQuestion {
  readonly id: string;
  readonly reward: number | null;
  /** What the environment wrote, in order. */
  readonly observations: readonly string[];
}

/** @param write the policy's turn, from the question and the number of turns before */
export async function playQuestions(write: (asked: Asked, index: number) => string, { count = Infinity } = {}): Promise<PlayedQuestion[]> {
  const environment = await loadEnvironment({ dataset: 'page-world' });
  await using models = await openRoleModels({ generator: { model: roles.generator.builtin }, judge: { model: roles.judge.builtin } });
  const client = new ScriptedClient({
    tokenizer: 'code-points',
    turns: ({ messages, index }) => write(askedIn(messages.map(({ content }) => contentText(content)).join('\n')), index),
  });
  const rows = [...environment.eval].slice(0, count);
  const played: PlayedQuestion[] = [];
  const run = runRollouts(
    rows.map((row) => ({ row, indices: [0] })),
    {
      environment,
      client,
      models,
      sampling: { temperature: 1, topP: 1 },
      maxTokens: null,
      maxConcurrent: 16,
      timeoutMs: 60_000,
      seed: 0,
      signal: new AbortController().signal,
    },
  );
  for await (const { row, rollouts } of run) {
    const { reward, segments } = rollouts[0]!;
    const observations = segments.flatMap(({ kind, text }) => (kind === 'model' ? [] : [text]));
    played.push({ id: String(row.exampleId), reward, observations });
  }
  await environment.close();
  return played.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

function askedIn(text: string): Asked {
  const [, label, town] = /How many (\w+) has (\w+)\?/.exec(text)!;
  return { label: label!, town: town! };
}
