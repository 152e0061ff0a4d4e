/**
 * Training runs with a real vLLM and a real torch worker: to the end, and through kills of the trainer, of the worker and of the server. Which
 * rollouts a server samples is chance, so the claims are about what must hold of any.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { isRunning } from '../launch/stand-in-python.ts';
import { until } from '../transport/loopback.ts';
import { type ServedModel, serveNano } from './serve.ts';
import { PYTHON, type RunFolder, TrainFolder, type TrainProcess } from './train-process.ts';

let server: ServedModel;
let folder: TrainFolder;
let started: TrainProcess[];
beforeAll(async () => {
  const running = process.env['VLLM_LORA_BASE_URL'];
  server = running ? { url: running, async [Symbol.asyncDispose]() {} } : await serveNano({ VF_VLLM_LORA: '1' });
});
afterAll(() => server[Symbol.asyncDispose]() as Promise<void>);
beforeEach(() => {
  folder = new TrainFolder();
  started = [];
});
afterEach(async () => {
  await Promise.all(started.map(({ kill }) => kill()));
  folder[Symbol.dispose]();
});

/** Adapters that the server has of this run, of all its processes. */
async function adaptersOf(run: RunFolder): Promise<string[]> {
  const { data } = (await (await fetch(`${server.url}/models`)).json()) as { data: { id: string }[] };
  return data.map(({ id }) => id).filter((id) => run.attempts().some((attempt) => id.startsWith(attempt)));
}

function begin(args: readonly string[], variables: Readonly<Record<string, string>> = {}): TrainProcess {
  const run = folder.begin(args, variables);
  started.push(run);
  return run;
}

function resume(run: RunFolder): TrainProcess {
  const resumed = folder.resume(run);
  started.push(resumed);
  return resumed;
}

/** Waits for a claim about the only run; fails at once where the process ends before it holds. */
async function reach(run: TrainProcess, claim: (folder: RunFolder) => boolean): Promise<RunFolder> {
  let hasEnded = false;
  void run.ended.then(() => (hasEnded = true));
  let found: RunFolder | null = null;
  await until(() => {
    found = folder.run();
    if (found !== null && claim(found)) return true;
    if (hasEnded) throw new Error(`The run ended too early; it said: ${run.said()}`);
    return false;
  });
  return found!;
}

/** The summary on stdout, which must hold nothing else. */
async function finished(run: TrainProcess) {
  const { code, stdout, stderr } = await run.ended;
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.trimEnd().split('\n')).toHaveLength(1);
  return JSON.parse(stdout) as {
    readonly reason: string;
    readonly model: string;
    readonly version: number;
    readonly adapter: string;
    readonly plots: readonly string[];
  };
}

/** What every finished run of `steps` steps holds, however often it was killed. */
function expectWhole(run: RunFolder, steps: number): void {
  const all = Array.from({ length: steps }, (_, i) => i + 1);
  expect(run.steps()).toEqual(all);
  expect(run.rows('evaluation').map(({ step }) => step)).toEqual([0, ...all].filter((step) => step % 2 === 0 || step === steps));
  for (const row of run.rows('step')) {
    // Weights that have changed since have other log-probs.
    if (row['staleness'] === 0) expect(row['log_prob_difference_mean']).toBeLessThanOrEqual(1e-4);
    const lines = run.rollouts(row.step!).filter(({ complete }) => complete !== true);
    // The later line of a rollout counts. What failed has no reward, and is in no mean.
    const last = [...new Map(lines.map((line) => [line.rollout_id, line])).values()];
    expect(last).toHaveLength(48);
    const rewards = last.filter(({ error }) => error === null).map(({ reward }) => reward!);
    expect(lines.every(({ error, reward }) => (error === null) === (reward !== null))).toBe(true);
    expect([row['rollouts'], row['rollouts_failed']]).toEqual([48, last.length - rewards.length]);
    expect(row['reward_mean']).toBeCloseTo(rewards.reduce((a, b) => a + b, 0) / rewards.length, 12);
  }
}

/** Numbers of the arithmetic, which must not depend on how the rollouts came about. */
function arithmetic(run: RunFolder): object[] {
  const names = ['step', 'reward_mean', 'trained_tokens', 'loss', 'grad_norm', 'log_prob_difference_mean', 'ratio_max', 'policy_version'];
  return run.rows('step').map((row) => Object.fromEntries(names.map((name) => [name, row[name]])));
}

/** Trains on the recorded rollouts from the first step on, in one go. */
async function expectReplay(run: RunFolder): Promise<void> {
  const replay = folder.replay(run);
  await finished(resume(replay));
  expect(arithmetic(replay)).toEqual(arithmetic(run));
  expect(replay.adapterSum()).toBe(run.adapterSum());
}

describe('vf-train with a real vLLM', () => {
  it('trains to the last step and leaves its newest adapter serving, without a secret in any file', async () => {
    const secret = 'sk-train-0123456789abcdef';
    const summary = await finished(begin(['-b', server.url, '--steps', '3', '-k', 'TRAIN_KEY'], { TRAIN_KEY: secret }));
    const run = folder.run()!;
    expectWhole(run, 3);
    expect(summary).toMatchObject({ reason: 'finished', version: 3 });
    expect(await adaptersOf(run)).toEqual([summary.model]);
    const answer = await fetch(`${server.url}/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: summary.model, prompt: 'a', max_tokens: 1 }),
    });
    expect(answer.status).toBe(200);
    expect(run.names('adapters')).toEqual([summary.model]);
    expect(run.names('plots').length).toBeGreaterThan(0);
    const files = run.files();
    expect(summary.plots.map((path) => path.slice(run.path.length + 1)).filter((name) => !files.get(name))).toEqual([]);
    expect([...files].filter(([, text]) => text.includes(secret)).map(([name]) => name)).toEqual([]);
  });

  it('ends, killed at many moments, with the weights of a run on the same rollouts that nobody killed', async () => {
    const random = Random.fromSeed(4);
    const some = () => 1 + random.integer(40);
    const versions = (run: RunFolder, step: number) => run.names('adapters').some((name) => name.endsWith(`-v00000${step}`));
    const first = begin(['-b', server.url, '--steps', '5']);
    const lines = some();
    // Sampling.
    const run = await reach(first, (is) => is.rollouts(1).length >= lines);
    await first.kill();
    const moments: ((is: RunFolder) => boolean)[] = [
      // Training on it.
      (is) => is.isSampled(1),
      // Publishing what came of it.
      (is) => versions(is, 2) || is.steps().includes(2),
      // Writing the checkpoint.
      (is) => is.names('checkpoints').length > 0,
      (is) => is.rollouts(4).length >= some(),
    ];
    for (const moment of moments) {
      const again = resume(run);
      await reach(again, moment);
      await again.kill();
    }
    // The worker alone: the run goes on by itself.
    const last = resume(run);
    await reach(last, (is) => is.rollouts(5).length >= lines);
    const worker = last.workerPid()!;
    process.kill(worker, 'SIGKILL');
    const { code, stderr } = await resume(run).ended;
    expect([code, stderr.trimEnd().split('\n').length]).toEqual([2, 1]);
    const summary = await finished(last);
    expect(run.events().map(({ kind }) => kind)).toContain('backend_lost');
    expectWhole(run, 5);
    expect(await adaptersOf(run)).toEqual([summary.model]);
    expect(run.names('adapters')).toEqual([summary.model]);
    await expectReplay(run);
  });

  it('samples a step ahead, stops at Ctrl-C with a word on how to go on, and goes on', async () => {
    const first = begin(['-b', server.url, '--steps', '4', '--async']);
    const run = await reach(first, (is) => is.steps().includes(2));
    first.child.kill('SIGINT');
    const { code, stdout, stderr } = await first.ended;
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({ reason: 'interrupted', resumable: true });
    expect(stderr.trimEnd().split('\n').at(-1)).toContain('vf-train -R ');
    await finished(resume(run));
    expectWhole(run, 4);
    const staleness = run.rows('step').map((row) => row['staleness']!);
    expect(Math.max(...staleness)).toBe(1);
    await expectReplay(run);
  });
});

describe('vf-train --launch', () => {
  it('starts its server again after kill -9, samples again what failed, and leaves no server behind, kill -9 of itself included', async () => {
    const first = begin(['--launch', '--vllm-python', PYTHON, '--steps', '3']);
    const run = await reach(first, (is) => is.rollouts(2).length > 5);
    process.kill(first.serverPids()[0]!, 'SIGKILL');
    await reach(first, (is) => is.rollouts(3).length > 5);
    expect(run.rollouts(2).filter(({ error }) => (error ?? null) !== null).length).toBeGreaterThan(0);
    const events = run.events();
    expect(events.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['step_repeated', 'policy_lost', 'policy_recovered']));
    expect(events.find(({ kind }) => kind === 'policy_recovered')!.message).toMatch(/version 1 serves again as \S+-v000001-2/);
    const left = first.serverPids();
    expect(left.length).toBeGreaterThan(1);
    await first.kill();
    await until(() => !left.some(isRunning));

    const again = resume(run);
    await reach(again, (is) => is.isSampled(3));
    const servers = again.serverPids();
    expect(servers.length).toBeGreaterThan(1);
    await finished(again);
    expect(servers.filter(isRunning)).toEqual([]);
    expectWhole(run, 3);
    await expectReplay(run);
  });
});
