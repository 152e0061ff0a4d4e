import { expect, it } from 'vitest';
import { describePeer, resultLine, runPeer } from './peer.ts';

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
    expect(clipped[0]).toBe(0);
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
});
