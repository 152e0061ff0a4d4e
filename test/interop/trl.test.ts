import { expect, it } from 'vitest';
import { serveWithoutRetriever } from './down-retriever.ts';
import { describePeer, resultLine, runPeer } from './peer.ts';
import { REWARD, rewardingServer, SHOWN, TURN_REWARDS, WORDS } from './rewarding-talk.ts';
import { serveCommand } from './serve-command.ts';

interface Trained {
  readonly version: string;
  /** Mean reward of each step. */
  readonly rewards: readonly number[];
  /** Share of completions that TRL takes for truncated, of each step. */
  readonly clipped: readonly number[];
  readonly norms: readonly number[];
  /** Number of trained tokens, and the largest difference between the sampler's log-probs and TRL's own on them. */
  readonly trained: number;
  readonly difference: number;
  /** Number of the environment's tokens in completions. */
  readonly observed: number;
}

interface Sampled {
  readonly difference: number;
  readonly distinct: number;
  readonly too_long: number;
  readonly past_stops: number;
  readonly stopped_at_own: number;
  /** Samples that ended at a stop string of another turn. */
  readonly stopped_at_other: number;
}

interface HeldOut {
  readonly version: string;
  /** Of each call of the rollout function. */
  readonly asked: readonly (readonly [isTraining: boolean, rollouts: number, prompts: number])[];
  readonly evaluations: readonly number[];
  /** How often the question of each row is in its prompt. */
  readonly mixed: readonly number[];
  readonly not_held_out: string | null;
  readonly bare: readonly (string | null)[];
  readonly left: readonly number[];
  readonly broken: readonly [error: string | null, steps: number, said: readonly string[]];
  readonly partly: readonly [error: string | null, steps: number, said: readonly string[]];
}

interface RewardedTurns {
  readonly version: string;
  /** What a reward function got of each rollout. */
  readonly turn_rewards: readonly (readonly (number | null)[])[];
  /** Of what it gave: the reward of the rollout and those of its turns. */
  readonly mean: number;
}

interface Example {
  readonly refused: readonly [code: number, stdout: string, stderr: string];
  readonly ran: readonly [code: number, stdout: string, stderr: string];
}

interface Edges {
  readonly version: string;
  readonly sampled: Sampled;
  readonly vllm: Sampled;
  readonly vllm_asked: readonly [readonly Readonly<Record<string, unknown>>[], Readonly<Record<string, unknown>>];
  readonly short: { readonly longest: number; readonly cut: number; readonly uneven: number };
  readonly replaced: readonly [rollouts: number, firstTurns: number];
  readonly twins: readonly [refusal: string | null, kept: readonly string[]];
  readonly stranger: string | null;
  readonly lost: Readonly<Record<string, unknown>> & { readonly prompt_ids: readonly number[] };
  readonly failed: {
    readonly errors: readonly (string | null)[];
    readonly rewards: readonly (number | null)[];
    readonly mean: number;
    readonly norm: number;
    readonly empty: number;
  };
}

const ROOT = new URL('../..', import.meta.url).pathname;
const isQuick = process.env['VF_INTEROP_QUICK'] === '1';

const train = (settings: { readonly steps: number; readonly sign: 1 | -1 }) =>
  runPeer<Trained>('trl', 'train', [JSON.stringify({ command: [process.execPath, 'bin/vf-serve.js'], repository: ROOT, ...settings })], {
    timeoutMs: 900_000,
  });

const percent = (value: number) => value.toFixed(2);

describePeer('trl', { quick: true }, () => {
  it('trains in an environment by its own model, with log-probs that are its own', async () => {
    const steps = isQuick ? 3 : 10;
    const { version, rewards, clipped, norms, trained, difference, observed } = await train({ steps, sign: 1 });
    expect(rewards).toHaveLength(steps);
    expect(trained).toBeGreaterThan(500);
    // The environment's tokens are there and have mask 0.
    expect(observed).toBeGreaterThan(500);
    expect(difference).toBeLessThan(1e-4);
    expect(clipped.slice(0, 3)).toEqual([0, 0, 0]);
    expect(norms[0]).toBeGreaterThan(0);
    expect(rewards[0]).toBeLessThanOrEqual(0.4);
    expect(rewards.at(-1)).toBeGreaterThanOrEqual(isQuick ? 0 : 0.8);
    const path = `${percent(rewards[0]!)} → ${percent(rewards.at(-1)!)} in ${steps} steps of 32`;
    resultLine(
      'trl',
      version,
      'GRPOTrainer with rollout_func and its own model, fact world',
      `${path}; ${trained} log-probs within ${difference.toExponential(1)}`,
    );
  }, 1_000_000);

  // Skipped with --quick: six steps take minutes, and the suite's other test has shown that training works.
  it.skipIf(isQuick)(
    'does not learn to be right from negated rewards',
    async () => {
      const { version, rewards } = await train({ steps: 6, sign: -1 });
      expect(Math.max(...rewards)).toBeLessThanOrEqual(0);
      expect(rewards.at(-1)).toBeGreaterThanOrEqual(rewards[0]!);
      resultLine('trl', version, 'the same with negated rewards', `right answers ${percent(-rewards[0]!)} → ${percent(-rewards.at(-1)!)}`);
    },
    1_000_000,
  );

  // Skipped with --quick, as are the next one and the example: each starts several trainings or servers.
  it.skipIf(isQuick)('samples as the trainer is set, within its limits, and gives it valid rows of rollouts that failed', async () => {
    const world = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world', max_turns: 2 });
    await using working = await serveCommand(['environment', 'search-r1', '-a', world, '--split', 'train', '--tokenizer', 'nano-base']);
    await using failing = await serveWithoutRetriever('nq-mini', ['--tokenizer', 'nano-base']);
    const edges = await runPeer<Edges>('trl', 'edges', [ROOT, working.url, failing.url], { timeoutMs: 280_000 });
    for (const { difference, distinct, ...counts } of [edges.sampled, edges.vllm]) {
      expect(difference).toBeLessThan(1e-5);
      expect(distinct).toBeGreaterThan(4);
      expect(counts).toEqual({ too_long: 0, past_stops: 0, stopped_at_own: expect.any(Number) as number, stopped_at_other: 0 });
      expect(counts.stopped_at_own).toBeGreaterThan(0);
    }
    const [asked, left] = edges.vllm_asked;
    expect(left).toEqual({ seed: 1 });
    expect(asked).toEqual([
      { seed: 1, stop: ['</search>', '</answer>'], include_stop_str_in_output: true, max_tokens: 30 },
      { seed: 1, stop: [' I'], include_stop_str_in_output: true, max_tokens: 30 },
    ]);
    expect(edges.short).toMatchObject({ longest: 24, uneven: 0 });
    expect(edges.short.cut).toBeGreaterThan(0);
    expect(edges.replaced).toEqual([16, 16]);
    expect(edges.twins).toEqual([expect.stringMatching(/^The rows a and b have the same prompt.*duplicates="first"/), ['a']]);
    expect(edges.stranger).toMatch(/no row with the prompt 'Who was it\?(?: Who| was| it\?)+ …'\. .*eval_env/);
    const { prompt_ids: end } = edges.lost;
    expect(end).toHaveLength(1);
    expect(edges.lost).toMatchObject({ completion_ids: end, env_mask: [0], logprobs: [0], vf_reward: null, vf_error: 'PolicyError: gone' });
    const { errors, rewards, mean, empty } = edges.failed;
    const failures = errors.filter((error) => error !== null);
    expect(failures.filter((error) => !/^RetrievalError: \S.*/.test(error))).toEqual([]);
    expect(rewards.map((value) => value === null)).toEqual(errors.map((error) => error !== null));
    const scored = rewards.filter((value) => value !== null);
    expect(mean).toBeCloseTo(scored.reduce((sum, value) => sum + value, 0) / scored.length, 6);
    expect(empty).toBe(0);
    resultLine(
      'trl',
      edges.version,
      'a step without the retriever',
      `${failures.length} of ${errors.length} rollouts have no reward, and training goes on`,
    );
  });

  it.skipIf(isQuick)('evaluates on held-out rows while it trains, and does not train on nothing', async () => {
    const world = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world', max_turns: 2 });
    const serve = (split: string, options: readonly string[]) =>
      serveCommand(['environment', 'search-r1', '-a', world, '--split', split, ...options]);
    await using training = await serve('train', ['--tokenizer', 'nano-base']);
    await using held = await serve('eval', ['--tokenizer', 'nano-base']);
    await using bare = await serve('eval', []);
    await using failing = await serveWithoutRetriever('nq-mini', ['--tokenizer', 'nano-base']);
    const urls = [training.url, held.url, bare.url, failing.url];
    const out = await runPeer<HeldOut>('trl', 'held_out', [ROOT, ...urls], { timeoutMs: 280_000 });
    const step = [true, 16, 2];
    const evaluation = [
      [false, 8, 2],
      [false, 4, 1],
    ];
    expect(out.asked).toEqual([step, ...evaluation, step, ...evaluation]);
    expect(out.evaluations).toEqual([expect.any(Number), expect.any(Number)]);
    expect(out.mixed).toEqual([1, 1, 1]);
    expect(out.not_held_out).toMatch(/^The row (\S+) of env and the row \1 of eval_env have the same prompt/);
    expect(out.bare).toEqual(Array(2).fill(expect.stringContaining('the server has no tokenizer. Make it with serve(..., tokenizer=FOLDER)')));
    expect(out.left).toEqual([0, 0]);
    const [error, steps, said] = out.broken;
    expect(error).toMatch(/^All 16 rollouts of step 1 failed, so there is nothing to train on\. The first: RetrievalError: \S/);
    expect(steps).toBe(0);
    const warning = expect.stringMatching(/^A rollout of the row \S+ failed and has no reward\. RetrievalError: \S/) as string;
    expect(said).toEqual([warning]);
    expect(out.partly).toEqual([null, 2, [warning]]);
    resultLine('trl', out.version, 'eval_dataset of another split', `${out.evaluations.length} evaluations while it trains`);
  });

  it('a reward function gets the rewards of the turns', async () => {
    await using server = await rewardingServer();
    const args = [ROOT, server.url, JSON.stringify(WORDS)];
    const { version, turn_rewards: rewards, mean } = await runPeer<RewardedTurns>('trl', 'turn_rewards', args, { timeoutMs: 280_000 });
    expect({ rewards, mean }).toEqual({ rewards: Array(4).fill(TURN_REWARDS), mean: REWARD + 0.5 - 2 });
    resultLine('trl', version, 'an environment that rewards turns', `vf_turn_rewards ${SHOWN}`);
  });

  it.skipIf(isQuick)('runs the example, which names a model that is not there in one line', async () => {
    const { refused, ran } = await runPeer<Example>('trl', 'example', [ROOT], { timeoutMs: 280_000 });
    expect(refused).toEqual([2, '', expect.stringMatching(/^The folder nowhere does not exist\. .*--model.*\n$/)]);
    expect(ran).toEqual([0, expect.stringMatching(/\nHeld-out reward: \d\.\d{3} before, \d\.\d{3} after\.\n$/), expect.anything()]);
  });
});
