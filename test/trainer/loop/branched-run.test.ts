/** Whole runs on made-up rollouts with branches: the same adapter after any number of kills, and with either backend. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainingOutcome } from '../../../src/trainer/training-session.ts';
import { branchedSource } from '../branched-source.ts';
import { rolloutText } from '../kept-rollouts.ts';
import { finalAdapter, newRun, rowsOf, trainSmall } from '../small-run.ts';
import { finishSmall, startSmall, untilPhases } from '../small-process.ts';
import { UnigramBackend } from '../unigram-backend.ts';

const KEPT = { evaluation: { every: 0 }, checkpoint: { every: 2, keep: 2, keep_rollouts: true }, guards: { max_log_prob_difference: null } };
const adapterOf = (outcome: TrainingOutcome) => finalAdapter(outcome, 'unigram.json');

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'vf-branched-'));
});
afterAll(() => rm(root, { recursive: true }));
const fresh = async () => newRun(await mkdtemp(join(root, 'run-')));

interface Run {
  readonly steps?: number;
  readonly config?: Record<string, unknown>;
  readonly hasOwnRewards?: boolean;
}
async function run({ steps = 1, config = {}, hasOwnRewards = false }: Run = {}) {
  const path = await fresh();
  const createSource = branchedSource({ hasOwnRewards });
  const outcome = await trainSmall(path, { backend: async () => new UnigramBackend(), createSource, config: { ...KEPT, steps, ...config } });
  expect(outcome).toMatchObject({ reason: 'finished' });
  return { path, adapter: await adapterOf(outcome), rows: (await rowsOf(path)) as Record<string, number>[] };
}

/** All branches, weighed by rollout. */
let whole: Awaited<ReturnType<typeof run>>;
beforeAll(async () => {
  whole = await run({ steps: 4 });
});

describe('a run on rollouts with branches', () => {
  it('trains on every branch, and says how many there are and what is left out', async () => {
    const [first] = whole.rows;
    expect(first).toMatchObject({ branch_tokens_left_out: 0, rollouts: 12 });
    expect(first!['branches_mean']).toBeGreaterThan(1.5);
    expect(first!['rollouts_branched']).toBeGreaterThan(0.5);
    const all = await run();
    const last = await run({ config: { algorithm: { branches: 'last' } } });
    expect(last.adapter).not.toEqual(all.adapter);
    expect(last.rows[0]!['branch_tokens_left_out']).toBeGreaterThan(0.3);
    expect(last.rows[0]!['groups']).toBe(first!['groups']);
    const weighed = async (branch_weight: string) =>
      (await run({ config: { algorithm: { branch_weight, loss: { aggregation: 'sequence_mean' }, kl: { coefficient: 0 } } } })).adapter;
    expect(await weighed('token')).not.toEqual(await weighed('rollout'));
  });

  it('has rewards of branches by role, and losses that are taken on one role', async () => {
    const { rows, adapter } = await run({ hasOwnRewards: true });
    expect(rows[0]!['reward/lead']).toBeGreaterThan(0);
    expect(rows[0]!['reward/helper']).toBeGreaterThan(0);
    const losses = { leading: { use: 'nll', roles: ['lead'], weight: 0.5 } };
    const led = await run({ hasOwnRewards: true, config: { losses } });
    expect(led.adapter).not.toEqual(adapter);
    expect(led.rows[0]!['loss/leading/nll']).toBeGreaterThan(0);
  });

  it('has one line for each rollout on file, with its branches, and one for its advantages', () => {
    const lines = rolloutText(whole.path, 'step-000001.jsonl')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { branches?: { length: number }[] });
    expect(lines.length).toBe(13);
    expect(lines.some(({ branches = [] }) => branches.length === 3)).toBe(true);
    const advantages = rolloutText(whole.path, 'step-000001_advantages.jsonl').trimEnd().split('\n');
    expect(new Set(advantages.map((line) => (JSON.parse(line) as { rollout_id: string }).rollout_id)).size).toBe(advantages.length);
  });

  it('ends with the same adapter and rows after an interruption of every phase of a step', async () => {
    const path = await fresh();
    const visited = new Set<string>();
    const options = { backend: async () => new UnigramBackend(), createSource: branchedSource(), config: { ...KEPT, steps: 4 } };
    for (;;) {
      const stop = new AbortController();
      const onPhase = (phase: string, step: number) => {
        if (stop.signal.aborted || step !== 3 || visited.has(phase)) return;
        visited.add(phase);
        stop.abort();
      };
      const outcome = await trainSmall(path, { ...options, signal: stop.signal, observer: { onPhase } });
      if (outcome.reason === 'interrupted') continue;
      expect(visited.size).toBeGreaterThan(2);
      expect(await adapterOf(outcome)).toEqual(whole.adapter);
      expect(await rowsOf(path)).toEqual(whole.rows);
      return;
    }
  });

  it('ends with the same adapter and rows after kills at three moments', { timeout: 60_000, tags: 'long' }, async () => {
    const config = { ...KEPT, steps: 4 };
    const path = await fresh();
    for (const phases of [3, 9, 16]) {
      const child = startSmall(path, { config, isBranched: true, slowMs: 2 });
      await untilPhases(child, phases);
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
    }
    const outcome = await finishSmall(path, { config, isBranched: true });
    expect(await adapterOf(outcome)).toEqual(whole.adapter);
    expect(await rowsOf(path)).toEqual(whole.rows);
  });
});
