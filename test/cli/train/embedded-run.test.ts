/**
 * `vf-train --preset laptop` as a newcomer runs it, short: with Node alone, to the end and through kills of the process and of its threads.
 * Sampling is random, so the claims are about what must hold of any run.
 */
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { inFloat32, recordedPoints } from '../../trainer/curves/curves-run.ts';
import { readEventFile, readWandbRuns } from '../../trainer/curves/read-curves.ts';
import { runInProcess } from '../in-process.ts';
import { finished, type RunFolder } from '../../vllm/train-process.ts';
import { ALONE, expectReplay, expectWhole, LaptopRuns, MORTAL, type Printed } from './laptop-runs.ts';

const ROOT = join(import.meta.dirname, '../../..');
const NANO = join(ROOT, 'models/nano-base');

let runs: LaptopRuns;
beforeEach(() => {
  runs = new LaptopRuns();
});
afterEach(() => runs[Symbol.asyncDispose]());

/** Several processes one after the other, each starting a run of its own. */
const TIMEOUT_MS = 180_000;

describe('vf-train --preset laptop', { timeout: TIMEOUT_MS }, () => {
  it('trains with Node alone, shows a question before and after, and leaves plots, an adapter that vf-eval plays, and no secret', async () => {
    const running = runs.begin(['--steps', '2']);
    const summary = await finished<Printed>(running);
    const run = runs.folder.run()!;
    expectWhole(run, 2);
    expect(summary).toMatchObject({ reason: 'finished', version: 2, log_prob_difference: { max: 0 } });
    expect(summary.plots.map((path) => existsSync(path))).toEqual([true, true, true, true]);
    const said = running.said();
    for (const part of ['nano-base to play search-r1 on fact-world', 'no server, no Python', 'Before training  row', 'After 2 steps  row']) {
      expect(said).toContain(part);
    }
    expect(readFileSync(summary.transcripts, 'utf8')).toMatch(/^Before training [^]*\nAfter 2 steps /);
    expect([...run.files()].filter(([, text]) => /Bearer|api_?key = |127\.0\.0\.1/i.test(text)).map(([name]) => name)).toEqual([]);

    const words = ['search-r1', '-n', '4', '-p', 'embedded', '-m', summary.adapter, '--json'];
    const evaluation = await runInProcess('vf-eval', words, { cwd: runs.folder.path, env: { ...ALONE, HOME: runs.folder.path } });
    expect({ code: evaluation.code, stderr: evaluation.code === 0 ? '' : evaluation.stderr }).toEqual({ code: 0, stderr: '' });
    expect(evaluation.stderr).toContain('knows only the world of the preset laptop, so dataset = "fact-world"');
    expect(JSON.parse(evaluation.stdout)).toMatchObject({ complete: true, base_url: null, rollouts: { finished: 4, errored: 0 } });
  });

  it('is a function of its seed: twice the same adapter, another one under another seed', { tags: 'long' }, async () => {
    const sums: string[] = [];
    for (const [output, seed] of [
      ['a', '5'],
      ['b', '5'],
      ['c', '6'],
    ] as const) {
      const { adapter } = await finished<Printed>(runs.begin(['--steps', '1', '--seed', seed, '-o', output]));
      sums.push(
        createHash('sha256')
          .update(readFileSync(join(adapter, 'adapter_model.safetensors')))
          .digest('hex'),
      );
    }
    expect(sums[1]).toBe(sums[0]);
    expect(sums[2]).not.toBe(sums[0]);
  });

  /** Ends a run of `steps` steps that is killed whenever it reaches one of these moments, and returns what its last resume printed. */
  async function endThroughKills(steps: number, [begun, ...later]: readonly ((is: RunFolder) => boolean)[]): Promise<Printed> {
    const first = runs.begin(['--steps', String(steps), '--tensorboard', '--wandb', 'p']);
    const run = await runs.reach(first, begun!);
    await first.kill();
    // A run that had ended by then would show nothing.
    expect((await first.ended).code).toBeNull();
    for (const reached of later) {
      const again = runs.resume(run);
      await runs.reach(again, reached);
      await again.kill();
    }
    const printed = await finished<Printed>(runs.resumeInProcess(run));
    expectWhole(run, steps);
    const points = recordedPoints(run.path);
    expect(readEventFile(join(run.path, 'tensorboard'))).toEqual(inFloat32(points));
    expect(readWandbRuns(join(run.path, 'wandb')).at(-1)).toMatchObject({ project: 'p', group: basename(run.path), exitCode: 0, points });
    await expectReplay(runs, run);
    return printed;
  }

  it('ends, after a kill amid the rollouts of a step, with the weights of an undisturbed run on the same rollouts', async () => {
    expect(await endThroughKills(2, [(is) => is.steps().includes(1) && is.rollouts(2).length > 5])).toMatchObject({ reason: 'finished' });
  });

  it('does so after kills at many moments', { tags: 'long' }, async () => {
    const lines = 1 + Random.fromSeed(Date.now()).integer(14);
    const printed = await endThroughKills(4, [
      (is) => is.rollouts(1).length >= lines,
      (is) => is.isSampled(2),
      (is) => is.names('checkpoints').length > 0,
      (is) => is.names('adapters').some((name) => name.endsWith('-v000003')) || is.steps().includes(3),
    ]);
    expect(printed).toMatchObject({ reason: 'finished' });
  });

  it('continues by itself after a thread of the engine died, to the weights of a run in which none did', { tags: 'long' }, async () => {
    const running = runs.begin(['--steps', '3'], MORTAL);
    const run = await runs.reach(running, (is) => is.rollouts(2).length > 5);
    running.child.kill('SIGUSR2');
    await finished<Printed>(running);
    expectWhole(run, 3);
    expect(running.said()).toMatch(/restarting the embedded engine \(1 of 5\)/);
    expect(run.events().map(({ kind }) => kind)).toContain('backend_lost');
    await expectReplay(runs, run);
  });

  it('samples a step ahead, stops at Ctrl-C with a word on how to continue, and continues', { tags: 'long' }, async () => {
    const first = runs.begin(['--steps', '4', '--async']);
    const run = await runs.reach(first, (is) => is.steps().includes(2));
    first.child.kill('SIGINT');
    const { code, stdout, stderr } = await first.ended;
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({ reason: 'interrupted', resumable: true });
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/vf-train(\.js)? -R /);
    await finished<Printed>(runs.resume(run));
    expectWhole(run, 4);
    expect(Math.max(...run.rows('step').map((row) => row['staleness']!))).toBe(1);
    await expectReplay(runs, run);
  });
});

describe('vf-train --embedded that cannot begin', () => {
  /** A copy of the nano model, changed. */
  const model = (name: string, change: (path: string) => void): string => {
    const path = join(runs.folder.path, name);
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
    const path = join(runs.folder.path, 'sealed');
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
    ['the directory holds no model', () => ['-m', runs.folder.path], /config\.json/],
    ['a key is unknown', () => ['--set', 'policy.embedded.thread=2'], /did you mean policy\.embedded\.threads\?/],
    ['the preset is unknown', () => ['--preset', 'labtop'], /did you mean laptop\?/],
    ['a key is of PyTorch', () => ['--set', 'backend.device=cuda'], /backend\.device must be left out with backend\.kind = "embedded"/],
    ['nothing can be written', () => ['-o', readOnly()], /sealed/],
  ];
  it.each(cases)('says so in one line, and leaves nothing behind: %s', async (_, args, line) => {
    const given = args();
    const before = readdirSync(runs.folder.path);
    const { code, stdout, stderr } = await runs.beginInProcess(given).ended;
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(line);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(runs.folder.run()).toBeNull();
    expect(readdirSync(runs.folder.path).filter((name) => !before.includes(name) && name !== 'train')).toEqual([]);
  });
});
