import { expect, it } from 'vitest';
import { serveWithoutRetriever } from './down-retriever.ts';
import { describePeer, resultLine, runPeer } from './peer.ts';
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

interface Edges {
  readonly version: string;
  readonly sampled: Sampled;
  readonly vllm: Sampled;
  readonly vllm_asked: readonly [readonly Readonly<Record<string, unknown>>[], Readonly<Record<string, unknown>>];
  readonly short: { readonly longest: number; readonly cut: number; readonly uneven: number };
  readonly replaced: readonly [rollouts: number, firstTurns: number];
  readonly twins: string | null;
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

  it('samples as the trainer is set, within its limits, and gives it valid rows of rollouts that failed', async () => {
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
    expect(edges.twins).toContain('The rows a and b have the same prompt');
    expect(edges.stranger).toContain('no row with the prompt');
    const { prompt_ids: end } = edges.lost;
    expect(end).toHaveLength(1);
    expect(edges.lost).toMatchObject({ completion_ids: end, env_mask: [0], logprobs: [0], vf_reward: null, vf_error: 'PolicyError' });
    const { errors, rewards, mean, empty } = edges.failed;
    const failures = errors.filter((error) => error !== null);
    expect(new Set(failures)).toEqual(new Set(['RetrievalError']));
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
});
