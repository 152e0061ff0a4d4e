/** The Tinker SDK, of each dialect, and recipes of tinker-cookbook, unmodified, against `vf-serve tinker`. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describePeer, type Peer, resultLine, runPeer } from './peer.ts';
import { type ServedCommand, serveCommand } from './serve-command.ts';

const NANO = join(import.meta.dirname, '../../models/nano-base');
const KEY = { TINKER_API_KEY: 'tml-test' };
/** Float32 sums in another order. */
const CLOSE = 1e-5;

interface SdkRun {
  readonly version: string;
  readonly models: readonly string[];
  readonly info: readonly [string, boolean, number];
  readonly losses: readonly number[];
  /** Sums of log-probs, before and after. */
  readonly learned: readonly [number, number];
  readonly back: number;
  readonly again: number;
  readonly elsewhere: number;
  readonly continued: number;
  readonly apart: number;
  readonly scored: readonly [number | null, number];
  readonly base: number;
  readonly repeats: boolean;
  readonly differ: number;
  readonly sampled: number;
  readonly hot: number;
  readonly stopped: readonly [string, boolean, number];
  readonly likeliest: readonly number[];
  /** By how much the rewarded tokens, and the punished one, became likelier. */
  readonly importance_sampling: readonly [number, number];
  readonly ppo: readonly [number, number];
  readonly cispo: readonly [number, number];
  readonly 'unknown loss': string | null;
  readonly 'unknown model': string | null;
  readonly 'token beyond the vocabulary': string | null;
  readonly 'goes on': number;
  readonly checkpoints: readonly string[];
  readonly weights: { readonly base_model: string; readonly is_lora: boolean; readonly lora_rank: number };
  readonly runs: boolean;
  readonly kept: readonly number[];
  readonly left: readonly string[];
  readonly custom?: readonly [number, number];
}

interface RecipesRun {
  readonly version: string;
  readonly nll: readonly number[];
  readonly rewards: readonly number[];
  readonly seconds: readonly number[];
  readonly guess?: readonly number[];
}

const folder = mkdtempSync(join(tmpdir(), 'vf-interop-tinker-'));
let server: ServedCommand;
beforeAll(async () => {
  server = await serveCommand(['tinker', '--model', NANO, '--state', join(folder, 'state')]);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

const SDKS: readonly (readonly [Peer, string, readonly string[]])[] = [
  ['tinker', 'protobuf', ['custom']],
  ['tinker-json', 'JSON', []],
];

for (const [peer, dialect, options] of SDKS) {
  describePeer(peer, {}, () => {
    it(`trains, samples, saves and loads, over ${dialect}`, async () => {
      const args = [server.url, 'nano-base', ...options];
      const run = await runPeer<SdkRun>(peer, '../tinker/sdk', args, { timeoutMs: 200_000, env: { ...KEY, VF_ARCHIVE: folder } });
      expect(run.models).toContain('nano-base');
      expect(run.info).toEqual(['nano-base', true, 8]);
      expect(run.losses.every((loss, i) => i === 0 || loss < run.losses[i - 1]!)).toBe(true);
      expect(run.learned[1] - run.learned[0]).toBeGreaterThan(5);
      // The same arithmetic on the same numbers, whichever model holds them.
      expect([run.back, run.again, run.elsewhere, run.continued, run.apart]).toEqual([0, 0, 0, 0, 0]);
      expect(run.scored[0]).toBeNull();
      for (const difference of [run.scored[1], run.base, run.sampled, run.hot]) expect(difference).toBeLessThan(CLOSE);
      expect([run.repeats, run.differ > 1]).toEqual([true, true]);
      expect(run.stopped).toEqual(['stop', true, 4]);
      expect(run.likeliest).toEqual(Array.from({ length: 9 }, () => 3));
      for (const [rewarded, punished] of [run.importance_sampling, run.ppo, run.cispo]) expect([rewarded > 0, punished < 0]).toEqual([true, true]);
      expect(run['unknown loss']).toMatch(/no_such_loss.*cross_entropy/);
      expect(run['unknown model']).toMatch(/no-such-model.*nano-base/);
      expect(run['token beyond the vocabulary']).toMatch(/10,?000,?000/);
      expect(Number.isFinite(run['goes on'])).toBe(true);
      expect(run.checkpoints).toEqual(expect.arrayContaining(['training weights/kept', 'sampler sampler_weights/last']));
      expect(run.weights).toMatchObject({ base_model: 'nano-base', is_lora: true, lora_rank: 8 });
      expect([run.runs, run.left.includes('weights/kept')]).toEqual([true, false]);
      // The JSON dialect's environment has no torch, which custom losses need.
      const [metric, likelier] = run.custom ?? [1, 1];
      expect([metric, likelier > 0]).toEqual([1, true]);
      const close = Math.max(run.scored[1], run.base, run.sampled, run.hot);
      const learned = run.learned.map((sum) => sum.toFixed(1)).join(' to ');
      resultLine(
        peer,
        run.version,
        `vf-serve tinker over ${dialect}: every call that trains or samples`,
        `log-probs of 13 tokens ${learned} in 6 steps; sampler and trainer within ${close.toExponential(1)}; saved, loaded and continued to the bit`,
      );
    });
  });
}

describePeer('tinker', {}, () => {
  const learn = (name: string, options: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    runPeer<RecipesRun>('tinker', 'recipes', [server.url, NANO, join(folder, name), ...options], { timeoutMs: 280_000, env: { ...KEY, ...env } });

  it('learns by sl_loop and then by rl_loop, and unlearns with rewards turned around', async () => {
    const run = await learn('recipes', ['all']);
    expect(mean(run.nll.slice(-3))).toBeLessThan(mean(run.nll.slice(0, 3)) / 2);
    const [first, last] = [mean(run.rewards.slice(0, 3)), mean(run.rewards.slice(-3))];
    expect(first).toBeLessThan(0.3);
    expect(last).toBeGreaterThan(0.8);
    const control = await learn('control', ['negate'], { VF_STEPS: '15' });
    // Of its rewards, which are those of wrong answers.
    const right = 1 - mean(control.rewards.slice(-3));
    expect(right).toBeLessThan(first);
    resultLine(
      'tinker-cookbook',
      run.version,
      'sl_loop, rl_loop from its checkpoint, guess_number',
      `nll ${mean(run.nll.slice(0, 3)).toFixed(2)} to ${mean(run.nll.slice(-3)).toFixed(2)} in ${run.nll.length} steps; reward ${first.toFixed(2)} to ${last.toFixed(2)} in ${run.rewards.length}; control ${right.toFixed(2)}`,
    );
  });
});
