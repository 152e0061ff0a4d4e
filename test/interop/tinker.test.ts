/** The Tinker SDK, of each dialect, and recipes of tinker-cookbook, unmodified, against `vf-serve tinker`. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makePrefix } from '../../environments/search-r1/prompt.ts';
import { describePeer, type Peer, resultLine, runPeer } from './peer.ts';
import { type ServedCommand, serveCommand } from './serve-command.ts';

const ROOT = join(import.meta.dirname, '../..');
const NANO = join(ROOT, 'models/nano-base');
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
  /** Of `sl_loop`, by step. */
  readonly nll: readonly number[];
  /** Of `rl_loop` and `guess_number`. */
  readonly rewards: readonly number[];
  readonly guess: readonly number[];
  /** Of DPO. */
  readonly margins: readonly number[];
  readonly accuracies: readonly number[];
}

interface SearchRun {
  readonly version: string;
  /** Share of right answers, by step. */
  readonly right: readonly number[];
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
      expect(run['unknown model']).toMatch(/has the model nano-base, not.*no-such-model/);
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
  it('teaches by sl_loop and by DPO with a reference model, and plays rl_loop and guess_number', async () => {
    const args = [server.url, NANO, join(folder, 'recipes')];
    const run = await runPeer<RecipesRun>('tinker', 'recipes', args, { timeoutMs: 280_000, env: KEY });
    const [first, last] = [mean(run.nll.slice(0, 3)), mean(run.nll.slice(-3))];
    expect(last).toBeLessThan(first / 4);
    expect([run.rewards.length, run.guess.length]).toEqual([2, 2]);
    expect([run.margins[0], run.margins.at(-1)! > 2, run.accuracies.at(-1)]).toEqual([0, true, 1]);
    resultLine(
      'tinker-cookbook',
      run.version,
      'vf-serve tinker: sl_loop, DPO, rl_loop, guess_number',
      `nll ${first.toFixed(2)} to ${last.toFixed(2)} in ${run.nll.length} steps; DPO margin 0 to ${run.margins.at(-1)!.toFixed(1)} in ${run.margins.length}; two steps each of the others`,
    );
  });

  it('teaches the recipe search_tool to search with this retriever, and the opposite with rewards turned around', async () => {
    await using retriever = await serveCommand(['retrieve', '--corpus', 'fact-world']);
    const prefix = join(folder, 'prefix.txt');
    writeFileSync(prefix, makePrefix('').split(' Question:')[0]!);
    const args = [server.url, retriever.url, NANO, join(ROOT, 'datasets/fact-world/train.jsonl'), prefix];
    const run = (name: string, more: readonly string[]) =>
      runPeer<SearchRun>('tinker', 'search_tool', [...args, join(folder, name), ...more], { timeoutMs: 280_000, env: KEY });
    const { version, right } = await run('search', ['15']);
    const [first, last] = [mean(right.slice(0, 2)), mean(right.slice(-3))];
    expect(first).toBeLessThan(0.35);
    expect(last).toBeGreaterThan(0.85);
    const control = await run('control', ['8', 'negate']);
    const opposite = mean(control.right.slice(-3));
    expect(opposite).toBeLessThan(first);
    resultLine(
      'tinker-cookbook',
      version,
      'vf-serve tinker and vf-serve retrieve: search_tool on the fact world, 8 × 16 rollouts a step',
      `right answers ${right.map((share) => share.toFixed(2).replace('0.', '.')).join(' ')}; rewards turned around ${opposite.toFixed(2)} after 8 steps`,
    );
  });
});
