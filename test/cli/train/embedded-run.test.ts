/**
 * `vf-train --preset laptop` as a newcomer runs it, short: with Node alone, to the end and through kills of the process and of its threads.
 * Sampling is random, so the claims are about what must hold of any run.
 */
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { inFloat32, recordedPoints } from '../../trainer/curves/curves-run.ts';
import { readEventFile, readWandbRuns } from '../../trainer/curves/read-curves.ts';
import { finished, type RunFolder, TrainFolder, type TrainProcess } from '../../vllm/train-process.ts';

const ROOT = join(import.meta.dirname, '../../..');
const NANO = join(ROOT, 'models/nano-base');
/** Evaluations of 8 of the 240 questions, every second step. */
const SHORT = {
  'evaluation.every': 2,
  'evaluation.examples': 8,
  'checkpoint.every': 2,
  'checkpoint.keep_rollouts': true,
  'rollouts.repeat_pause_s': 0,
};
const LAPTOP = [
  'search-r1',
  '--preset',
  'laptop',
  '-n',
  '4',
  '-o',
  '.',
  ...Object.entries(SHORT).flatMap(([key, value]) => ['--set', `${key}=${value}`]),
];
/** No program but Node can be called. */
const ALONE = { PATH: '/nonexistent', VF_BASE_URL: '' };
const MORTAL = { ...ALONE, NODE_OPTIONS: `--import ${join(import.meta.dirname, 'end-a-thread.mjs')}` };

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

function start(args: readonly string[], variables: Readonly<Record<string, string>> = ALONE): TrainProcess {
  const run = folder.start(args, variables);
  started.push(run);
  return run;
}

const begin = (args: readonly string[] = [], variables?: Readonly<Record<string, string>>) => start([...LAPTOP, ...args], variables);
const resume = (run: RunFolder, variables?: Readonly<Record<string, string>>) => start(['-R', run.path], variables);

const reach = (run: TrainProcess, claim: (is: RunFolder) => boolean) => folder.reach(run, claim);

interface Printed {
  readonly reason: string;
  readonly version: number;
  readonly adapter: string;
  readonly transcripts: string;
  readonly plots: readonly string[];
  readonly log_prob_difference: { readonly max: number };
}

/** What every finished run of `steps` steps holds, however often it was killed. */
function expectWhole(run: RunFolder, steps: number): void {
  const all = Array.from({ length: steps }, (_, i) => i + 1);
  expect(run.steps()).toEqual(all);
  expect(run.rows('evaluation').map(({ step }) => step)).toEqual([0, ...all].filter((step) => step % 2 === 0 || step === steps));
  const rows = run.rows('step');
  expect(rows.map((row) => row['rollouts']! - row['rollouts_failed']!)).toEqual(all.map(() => 32));
  // The engine that samples and the one that trains give every token the same number, to the bit; weights that have changed since have others.
  const same = rows.filter((row) => row['staleness'] === 0);
  expect(same.length).toBeGreaterThan(0);
  expect(same.map((row) => row['log_prob_difference_max'])).toEqual(same.map(() => 0));
}

/** Trains on the recorded rollouts from the first step on, in one go. */
async function expectReplay(run: RunFolder): Promise<void> {
  const replay = folder.replay(run);
  await finished<Printed>(resume(replay));
  expect(replay.arithmetic()).toEqual(run.arithmetic());
  expect(replay.adapterSum()).toBe(run.adapterSum());
}

/** Several processes one after the other, each starting a run of its own. */
const TIMEOUT_MS = 180_000;

describe('vf-train --preset laptop', { timeout: TIMEOUT_MS }, () => {
  it('trains with Node alone, shows a question before and after, and leaves plots, an adapter that vf-eval plays, and no secret', async () => {
    const running = begin(['--steps', '3']);
    const summary = await finished<Printed>(running);
    const run = folder.run()!;
    expectWhole(run, 3);
    expect(summary).toMatchObject({ reason: 'finished', version: 3, log_prob_difference: { max: 0 } });
    expect(summary.plots.map((path) => existsSync(path))).toEqual([true, true, true, true]);
    const said = running.said();
    for (const part of ['nano-base to play search-r1 on fact-world', 'no server, no Python', 'Before training  row', 'After 3 steps  row']) {
      expect(said).toContain(part);
    }
    expect(readFileSync(summary.transcripts, 'utf8')).toMatch(/^Before training [^]*\nAfter 3 steps /);
    expect([...run.files()].filter(([, text]) => /Bearer|api_?key = |127\.0\.0\.1/i.test(text)).map(([name]) => name)).toEqual([]);

    const evaluation = spawnSync(
      process.execPath,
      [
        '--conditions=vf-search-source',
        '--no-warnings',
        join(ROOT, 'src/cli/vf-eval.ts'),
        'search-r1',
        '-n',
        '4',
        '-p',
        'embedded',
        '-m',
        summary.adapter,
        '--json',
      ],
      {
        cwd: folder.path,
        env: { ...ALONE, HOME: folder.path },
        encoding: 'utf8',
      },
    );
    expect({ code: evaluation.status, stderr: evaluation.status === 0 ? '' : evaluation.stderr }).toEqual({ code: 0, stderr: '' });
    expect(evaluation.stderr).toContain('knows only the world of the preset laptop, so dataset = "fact-world"');
    expect(JSON.parse(evaluation.stdout)).toMatchObject({ complete: true, base_url: null, rollouts: { finished: 4, errored: 0 } });
  });

  it('is a function of its seed: twice the same adapter, another one under another seed', async () => {
    const sums: string[] = [];
    for (const [output, seed] of [
      ['a', '5'],
      ['b', '5'],
      ['c', '6'],
    ] as const) {
      const { adapter } = await finished<Printed>(begin(['--steps', '2', '--seed', seed, '-o', output]));
      sums.push(
        createHash('sha256')
          .update(readFileSync(join(adapter, 'adapter_model.safetensors')))
          .digest('hex'),
      );
    }
    expect(sums[1]).toBe(sums[0]);
    expect(sums[2]).not.toBe(sums[0]);
  });

  it('ends, after kills at many moments, with the weights of an undisturbed run on the same rollouts', async () => {
    const lines = 1 + Random.fromSeed(Date.now()).integer(28);
    const first = begin(['--steps', '4', '--tensorboard', '--wandb', 'p']);
    const run = await reach(first, (is) => is.rollouts(1).length >= lines);
    await first.kill();
    const moments: ((is: RunFolder) => boolean)[] = [
      (is) => is.isSampled(2),
      (is) => is.names('checkpoints').length > 0,
      (is) => is.names('adapters').some((name) => name.endsWith('-v000003')) || is.steps().includes(3),
    ];
    for (const reached of moments) {
      const again = resume(run);
      await reach(again, reached);
      await again.kill();
    }
    expect(await finished<Printed>(resume(run))).toMatchObject({ reason: 'finished' });
    expectWhole(run, 4);
    const points = recordedPoints(run.path);
    expect(readEventFile(join(run.path, 'tensorboard'))).toEqual(inFloat32(points));
    expect(readWandbRuns(join(run.path, 'wandb')).at(-1)).toMatchObject({ project: 'p', group: basename(run.path), exitCode: 0, points });
    await expectReplay(run);
  });

  it('continues by itself after a thread of the engine died, to the weights of a run in which none did', async () => {
    const running = begin(['--steps', '6'], MORTAL);
    const run = await reach(running, (is) => is.rollouts(2).length > 5);
    running.child.kill('SIGUSR2');
    await reach(running, (is) => is.rollouts(5).length > 5);
    running.child.kill('SIGUSR2');
    await finished<Printed>(running);
    expectWhole(run, 6);
    expect(running.said()).toMatch(/restarting the embedded engine \(2 of 5\)/);
    expect(run.events().map(({ kind }) => kind)).toContain('backend_lost');
    await expectReplay(run);
  });

  it('gives up, resumable, when threads die more often than policy.embedded.max_restarts allows', async () => {
    const running = begin(['--steps', '4', '--set', 'policy.embedded.max_restarts=0'], MORTAL);
    const run = await reach(running, (is) => is.steps().includes(2));
    running.child.kill('SIGUSR2');
    const { code, stdout, stderr } = await running.ended;
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/after 0 of 0 restarts/);
    expect(stderr).toContain('continue this run with npx -p vf-search vf-train -R');
    await finished<Printed>(resume(run));
    expectWhole(run, 4);
    await expectReplay(run);
  });

  it('samples a step ahead, stops at Ctrl-C with a word on how to continue, and continues', async () => {
    const first = begin(['--steps', '4', '--async']);
    const run = await reach(first, (is) => is.steps().includes(2));
    first.child.kill('SIGINT');
    const { code, stdout, stderr } = await first.ended;
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({ reason: 'interrupted', resumable: true });
    expect(stderr.trimEnd().split('\n').at(-1)).toContain('vf-train -R ');
    await finished<Printed>(resume(run));
    expectWhole(run, 4);
    expect(Math.max(...run.rows('step').map((row) => row['staleness']!))).toBe(1);
    await expectReplay(run);
  });
});

describe('vf-train --embedded that cannot begin', () => {
  /** A copy of the nano model, changed. */
  const model = (name: string, change: (path: string) => void): string => {
    const path = join(folder.path, name);
    cpSync(NANO, path, { recursive: true });
    change(path);
    return path;
  };
  const withConfig = (name: string, changes: object) =>
    model(name, (path) => {
      const file = join(path, 'config.json');
      writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, 'utf8')) as object), ...changes }));
    });
  const readOnly = () => {
    const path = join(folder.path, 'sealed');
    mkdirSync(path);
    // Root writes everywhere, but a file in the folder's place stops every user.
    writeFileSync(join(path, 'train'), '');
    chmodSync(path, 0o555);
    return path;
  };
  const cases: [what: string, args: () => string[], line: RegExp][] = [
    ['the model is of another kind', () => ['-m', withConfig('llama', { model_type: 'llama', architectures: ['LlamaForCausalLM'] })], /llama/],
    ['the model is too large', () => ['-m', withConfig('large', { hidden_size: 8192, num_hidden_layers: 80, intermediate_size: 32768 })], /GiB/],
    ['there is no such model', () => ['-m', 'nowhere'], /The directory nowhere does not exist/],
    ['the directory holds no model', () => ['-m', folder.path], /config\.json/],
    ['a key is unknown', () => ['--set', 'policy.embedded.thread=2'], /did you mean policy\.embedded\.threads\?/],
    ['the preset is unknown', () => ['--preset', 'labtop'], /did you mean laptop\?/],
    ['a key is of PyTorch', () => ['--set', 'backend.device=cuda'], /no backend\.device with backend\.kind = "embedded"/],
    ['nothing can be written', () => ['-o', readOnly()], /sealed/],
  ];
  it.each(cases)('says so in one line, and leaves nothing behind: %s', async (_, args, line) => {
    const given = args();
    const before = readdirSync(folder.path);
    const { code, stdout, stderr } = await begin(given).ended;
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(line);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(folder.run()).toBeNull();
    expect(readdirSync(folder.path).filter((name) => !before.includes(name) && name !== 'train')).toEqual([]);
  });
});
