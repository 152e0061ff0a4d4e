/** A custom environment. Run directly, this file plays it with a scripted policy that halves the interval; `npx vf-eval examples/guess-the-number.ts` evaluates it. */
import { Dataset, type EnvResponse, type EpisodeState, MultiTurnEnv, type Row, Rubric } from 'vf-search';
import { runRollouts } from 'vf-search/rollouts';
import { ScriptedClient } from 'vf-search/clients/scripted';

interface GuessState extends EpisodeState {
  readonly secret: number;
}

class GuessTheNumber extends MultiTurnEnv<Row, GuessState> {
  protected setupState(row: Row): GuessState {
    return { turns: 0, secret: Number(row.answer) };
  }

  protected envResponse(kept: string, { secret }: GuessState): EnvResponse {
    const guess = Number(/<guess>\s*(-?\d+)\s*<\/guess>/.exec(kept)?.[1] ?? NaN);
    if (guess === secret) return { done: true };
    return { observation: Number.isNaN(guess) ? 'Write <guess>number</guess>.' : guess < secret ? 'Higher.' : 'Lower.' };
  }
}

const found = ({ stop }: { stop: string }) => (stop === 'completed' ? 1 : 0);

export function loadEnvironment(): GuessTheNumber {
  const rows = [7, 42, 99].map((secret) => ({
    exampleId: secret,
    prompt: [{ role: 'user' as const, content: 'I think of a number from 1 to 100. Which one? Write <guess>number</guess>.' }],
    answer: String(secret),
  }));
  return new GuessTheNumber({ id: 'guess-the-number', eval: new Dataset('numbers', rows), rubric: new Rubric({ funcs: [found] }), maxTurns: 8 });
}

if (import.meta.main) {
  const environment = loadEnvironment();
  const client = new ScriptedClient({
    kind: 'chat',
    turns: ({ messages }) => {
      let [low, high] = [1, 100];
      for (const { role, content } of messages) {
        const guess = Math.floor((low + high) / 2);
        if (role === 'user' && content === 'Higher.') low = guess + 1;
        if (role === 'user' && content === 'Lower.') high = guess - 1;
      }
      return `<guess>${Math.floor((low + high) / 2)}</guess>`;
    },
  });
  const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
  const { signal } = new AbortController();
  const options = { environment, client, sampling: { temperature: 1, topP: 1 }, maxTokens: null, maxConcurrent: 1, timeoutMs: null, seed: 0, signal };
  for await (const { row, rollouts } of runRollouts(groups, options)) {
    const { reward, generations } = rollouts[0]!;
    console.log(`${row.answer}: reward ${reward} after ${generations.length} guesses`);
    if (reward !== 1) process.exitCode = 1;
  }
}
