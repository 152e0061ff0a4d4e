/**
 * Training runs with a real vLLM and a real torch worker: to the end, and through kills of the trainer, of the worker and of the server. Which
 * rollouts a server samples is random, so the claims are about what must hold of any.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { isRunning } from '../launch/stand-in-python.ts';
import { loraProxy } from '../loopback/lora-proxy.ts';
import { refusingUrl, until } from '../transport/loopback.ts';
import { finished, PYTHON, type RunFolder, TrainFolder, type TrainProcess } from './train-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const JSON_BODY = { 'content-type': 'application/json' };

const server = { url: inject('vllmLoraUrl') };
let folder: TrainFolder;
let started: TrainProcess[];
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

function resume(run: RunFolder, args: readonly string[] = []): TrainProcess {
  const resumed = folder.resume(run, args);
  started.push(resumed);
  return resumed;
}

const reach = (run: TrainProcess, claim: (is: RunFolder) => boolean) => folder.reach(run, claim);

interface Printed {
  readonly reason: string;
  readonly model: string;
  readonly version: number;
  readonly adapter: string;
  readonly plots: readonly string[];
}

/** What every finished run of `steps` steps holds, however often it was killed. */
function expectWhole(run: RunFolder, steps: number): void {
  const all = Array.from({ length: steps }, (_, i) => i + 1);
  expect(run.steps()).toEqual(all);
  expect(run.rows('evaluation').map(({ step }) => step)).toEqual([0, ...all].filter((step) => step % 2 === 0 || step === steps));
  // Weights that have changed since have other log-probs.
  const same = run.rows('step').filter((row) => row['staleness'] === 0);
  expect(same.length).toBeGreaterThan(0);
  expect(Math.max(...same.map((row) => row['log_prob_difference_mean'] ?? 0))).toBeLessThanOrEqual(1e-4);
  for (const row of run.rows('step')) {
    const lines = run.rollouts(row.step!).filter(({ complete }) => complete !== true);
    // The later line of a rollout counts. What failed has no reward, and is in no mean.
    const last = [...new Map(lines.map((line) => [line.rollout_id, line])).values()];
    expect(last).toHaveLength(32);
    const rewards = last.filter(({ error }) => error === null).map(({ reward }) => reward!);
    expect(lines.every(({ error, reward }) => (error === null) === (reward !== null))).toBe(true);
    expect([row['rollouts'], row['rollouts_failed']]).toEqual([32, last.length - rewards.length]);
    expect(row['reward_mean']).toBeCloseTo(rewards.reduce((a, b) => a + b, 0) / rewards.length, 12);
  }
}

/** Trains on the recorded rollouts from the first step on, in one go. What serves meanwhile makes no difference. */
async function expectReplay(run: RunFolder): Promise<void> {
  const replay = folder.replay(run);
  await finished<Printed>(resume(replay, ['-b', server.url]));
  expect(replay.arithmetic()).toEqual(run.arithmetic());
  expect(replay.adapterSum()).toBe(run.adapterSum());
}

describe('vf-train with a real vLLM', () => {
  it('trains to the last step and leaves its newest adapter serving where it is told to, without a secret in any file', async () => {
    const secret = 'sk-train-0123456789abcdef';
    const summary = await finished<Printed>(
      begin(['-b', server.url, '--steps', '2', '-k', 'TRAIN_KEY', '--set', 'policy.keep_adapter=true'], { TRAIN_KEY: secret }),
    );
    const run = folder.run()!;
    expectWhole(run, 2);
    expect(summary).toMatchObject({ reason: 'finished', version: 2 });
    expect(await adaptersOf(run)).toEqual([summary.model]);
    const answer = await fetch(`${server.url}/completions`, {
      method: 'POST',
      headers: JSON_BODY,
      body: JSON.stringify({ model: summary.model, prompt: 'a', max_tokens: 1 }),
    });
    expect(answer.status).toBe(200);
    expect(run.names('adapters')).toEqual([summary.model]);
    expect(run.names('plots').length).toBeGreaterThan(0);
    const files = run.files();
    expect(summary.plots.map((path) => path.slice(run.path.length + 1)).filter((name) => !files.get(name))).toEqual([]);
    expect([...files].filter(([, text]) => text.includes(secret)).map(([name]) => name)).toEqual([]);
  });

  it('trains grpo-000 by its preset, with groups as its configuration says, and gives every token the log-prob of the server', async () => {
    const run = folder.start(
      [
        'grpo-000',
        '--preset',
        'laptop',
        '-b',
        server.url,
        '-m',
        join(ROOT, 'test/models/nano-base'),
        '--python',
        PYTHON,
        '-o',
        '.',
        '--steps',
        '2',
      ].concat(
        ['-a', '{"config": {"group_size": 4}}'],
        ['rollouts.examples_per_step=8', 'evaluation.every=0', 'backend.threads=1', 'checkpoint.keep_rollouts=true'].flatMap((key) => ['--set', key]),
      ),
    );
    started.push(run);
    await finished<Printed>(run);
    const rows = folder.run()!.rows('step');
    expect(rows.map(({ step, rollouts, groups }) => [step, rollouts, groups])).toEqual([
      [1, 32, 8],
      [2, 32, 8],
    ]);
    expect(Math.max(...rows.map((row) => row['log_prob_difference_mean']!))).toBeLessThanOrEqual(1e-4);
    expect(Math.max(...rows.map((row) => row['rubric/searches']!))).toBeGreaterThan(0.1);
  });

  it('survives short memory, a server that forgets an adapter it has just loaded, and adapters that are deleted under it', async () => {
    let isForgotten = false;
    await using proxy = await loraProxy(server.url, async ({ path, body, pass }, response) => {
      if (isForgotten || path !== '/v1/load_lora_adapter' || !body.includes('-v000001')) return false;
      isForgotten = true;
      const { status } = await pass();
      const { lora_name: name } = JSON.parse(body) as { lora_name: string };
      await fetch(`${server.url}/unload_lora_adapter`, { method: 'POST', headers: JSON_BODY, body: JSON.stringify({ lora_name: name }) });
      response.writeHead(status).end();
      return true;
    });
    const process = begin(['-b', `${proxy.url}/v1`, '--steps', '2'], { VF_TORCH_MEMORY_LIMIT_TOKENS: '2000' });
    const run = await reach(process, (is) => is.steps().includes(1));
    rmSync(join(run.path, 'adapters'), { recursive: true });
    const summary = await finished<Printed>(process);
    expectWhole(run, 2);
    expect(summary.version).toBe(2);
    const kinds = run.events().map(({ kind }) => kind);
    expect(kinds).toEqual(expect.arrayContaining(['token_budget_halved', 'policy_lost', 'policy_recovered']));
    expect(run.events().find(({ kind }) => kind === 'policy_recovered')!.message).toMatch(/version 1 serves as \S+-v000001-2$/);
  });

  it('ends, after kills at many moments, with the weights of an undisturbed run on the same rollouts', { tags: 'long' }, async () => {
    const lines = 1 + Random.fromSeed(Date.now()).integer(28);
    const first = begin(['-b', server.url, '--steps', '4']);
    const run = await reach(first, (is) => is.rollouts(1).length >= lines);
    await first.kill();
    const moments: [doing: string, reached: (is: RunFolder) => boolean][] = [
      ['training', (is) => is.isSampled(2)],
      ['writing a checkpoint', (is) => is.names('checkpoints').length > 0],
      ['publishing', (is) => is.names('adapters').some((name) => name.endsWith('-v000003')) || is.steps().includes(3)],
    ];
    for (const [, reached] of moments) {
      const again = resume(run);
      await reach(again, reached);
      await again.kill();
    }
    // Only the worker: the run continues by itself.
    const last = resume(run);
    await reach(last, (is) => is.rollouts(4).length >= lines);
    const worker = last.workerPid()!;
    process.kill(worker, 'SIGKILL');
    const { code, stderr } = await resume(run).ended;
    expect([code, stderr.trimEnd().split('\n').length]).toEqual([2, 1]);
    const summary = await finished<Printed>(last);
    expect(run.events().map(({ kind }) => kind)).toContain('backend_lost');
    expectWhole(run, 4);
    expect(summary).toMatchObject({ reason: 'finished', version: 4 });
    expect(await adaptersOf(run)).toEqual([]);
    expect(run.names('adapters')).toEqual([]);
    await expectReplay(run);
  });

  it('samples a step ahead, stops at Ctrl-C with a word on how to continue, and continues', { tags: 'long' }, async () => {
    const first = begin(['-b', server.url, '--steps', '4', '--async']);
    const run = await reach(first, (is) => is.steps().includes(2));
    first.child.kill('SIGINT');
    const { code, stdout, stderr } = await first.ended;
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({ reason: 'interrupted', resumable: true });
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/vf-train(\.js)? -R /);
    await finished<Printed>(resume(run));
    expectWhole(run, 4);
    const staleness = run.rows('step').map((row) => row['staleness']!);
    expect(Math.max(...staleness)).toBe(1);
    await expectReplay(run);
  });
});

describe('vf-train that cannot begin', () => {
  /** A Python that says something before it is one. */
  const chatty = () => {
    const path = join(folder.path, 'python');
    writeFileSync(path, `#!/bin/sh\necho 'loading ...'\nexec '${PYTHON}' "$@"\n`, { mode: 0o755 });
    return path;
  };
  const cases: [what: string, args: () => Promise<string[]> | string[], code: number, line: RegExp][] = [
    ['there is no server', async () => ['-b', `${await refusingUrl()}/v1`], 1, /ECONNREFUSED.*check that the server runs/],
    ['the server takes no adapters', () => ['-b', inject('vllmUrl')], 2, /was started without --enable-lora; vf-doctor prints a command/],
    [
      'the server has another model',
      () => ['-b', server.url, '--server-model', 'other'],
      2,
      /does not serve other\. It serves nano-base\. .*--server-model/,
    ],
    ['there is no such model', () => ['-b', server.url, '-m', '/nowhere'], 2, /model\.path does not exist: \/nowhere/],
    ['there is no such Python', () => ['-b', server.url, '--python', '/nowhere/python'], 2, /Cannot start \/nowhere\/python \(backend\.python\)/],
    [
      'the worker writes something else',
      () => ['-b', server.url, '--python', chatty()],
      1,
      /something other than frames.*"loading \.\.\.\\n"; find what writes/,
    ],
    ['a key is unknown', () => ['-b', server.url, '--set', 'rollouts.example_per_step=3'], 2, /did you mean rollouts\.examples_per_step\?/],
  ];
  it.each(cases)('says so in one line, and leaves nothing behind: %s', async (_, args, exitCode, line) => {
    const { code, stdout, stderr } = await begin(await args()).ended;
    expect([code, stdout]).toEqual([exitCode, '']);
    expect(stderr).toMatch(line);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(folder.run()).toBeNull();
  });
});

describe('vf-train --launch with two replicas', () => {
  it(
    'goes on while one restarts after kill -9, waits when both died, and leaves no server behind, even after kill -9 of itself',
    { tags: 'long', timeout: 900_000 },
    async () => {
      const first = begin(['--launch', '--vllm-python', PYTHON, '--steps', '500', '--set', 'policy.launch.replicas=2']);
      const run = await reach(first, (is) => is.rollouts(2).length > 5);
      const kinds = () => run.events().map(({ kind }) => kind);
      const [victim, other, ...more] = first.replicaPids();
      expect([victim, other, more]).toEqual([expect.any(Number), expect.any(Number), []]);
      process.kill(victim!, 'SIGKILL');
      await reach(first, () => kinds().includes('replica_lost'));
      const lost = run.events().find(({ kind }) => kind === 'replica_lost')!;
      expect(lost.message).toMatch(/gets no requests until it is back: .*\. [01] of 2 replicas serve version \d+$/);
      const done = run.steps().length;
      await reach(first, (is) => is.steps().length > done);
      // The other one took its requests: no step was sampled again.
      expect(kinds()).not.toContain('step_repeated');

      // Long before the first one is back.
      process.kill(other!, 'SIGKILL');
      await reach(first, () => kinds().includes('policy_recovered'));
      expect(kinds()).toEqual(expect.arrayContaining(['policy_lost', 'policy_recovered']));
      // What was being played began again.
      expect(kinds().some((kind) => kind === 'step_repeated' || kind === 'evaluation_repeated')).toBe(true);
      const isBack = /was loaded there again as \S+ and compared\. 2 of 2 replicas serve version \d+$/;
      await reach(first, () => run.events().some(({ kind, message }) => kind === 'replica_recovered' && isBack.test(message)));
      expect(first.replicaPids()).toHaveLength(2);
      const left = first.serverPids();
      expect(left.length).toBeGreaterThan(1);
      await first.kill();
      await until(() => !left.some(isRunning));

      const last = run.steps().length + 2;
      // One replica is enough to finish, and starts in half the time.
      const again = resume(run, ['--steps', String(last), '--set', 'policy.launch.replicas=1']);
      await reach(again, (is) => is.isSampled(last) && again.serverPids().length > 1);
      const servers = again.serverPids();
      await finished<Printed>(again);
      expect(servers.filter(isRunning)).toEqual([]);
      expectWhole(run, last);
      await expectReplay(run);
    },
  );
});
