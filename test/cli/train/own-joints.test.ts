/** The modules of docs/training-joints.md, brought to `vf-train` as its user brings them. */
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { finished, TrainFolder, type TrainProcess } from '../../vllm/train-process.ts';
import { rolloutNames, rolloutText } from '../../trainer/kept-rollouts.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../../docs/training-joints.md'), 'utf8');
const ALONE = { PATH: '/nonexistent', VF_BASE_URL: '' };
const SMALL = [
  '--preset',
  'laptop',
  '-n',
  '4',
  '-r',
  '4',
  '--steps',
  '2',
  '--set',
  'evaluation.every=0',
  '--set',
  'checkpoint.keep_rollouts=true',
  '--set',
  'policy.embedded.threads=1',
  '-o',
  '.',
];

const linesOf = (path: string) => recordsOf(readFileSync(path, 'utf8'));

const recordsOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

let folder: TrainFolder;
let started: TrainProcess[];
beforeEach(() => {
  folder = new TrainFolder();
  started = [];
  const modules = [...PAGE.matchAll(/```ts\n\/\/ ([\w.-]+)\n([^]*?)```/g)];
  for (const [, name, text] of modules) writeFileSync(join(folder.path, name!), text!);
});
afterEach(async () => {
  await Promise.all(started.map(({ kill }) => kill()));
  folder[Symbol.dispose]();
});

function start(...args: readonly string[]): TrainProcess {
  const run = folder.start(args, ALONE);
  started.push(run);
  return run;
}

describe('modules of docs/training-joints.md', { timeout: 120_000 }, () => {
  it('the loss is what the steps minimise, with its settings', async () => {
    const loss = ['--set', 'algorithm.loss.use=./my-loss.ts', '--set', 'algorithm.loss.args={down = 0.2}'];
    const further = ['--set', 'losses.kinds={use = "./by-kind.ts", weight = 0.5}'];
    expect(await finished(folder.runInProcess(['search-r1', ...SMALL, ...loss, ...further], ALONE))).toMatchObject({
      reason: 'finished',
      version: 2,
    });
    const rows = folder.run()!.rows('step');
    for (const row of rows) {
      expect(row['loss/policy/lowered']).toBeGreaterThan(0);
      expect(row['loss/policy/lowered']).toBeLessThan(1);
      expect('policy_loss' in row).toBe(false);
      expect(row['loss/kinds/searching']).toBeGreaterThan(0);
      expect(row['loss/kinds/searching']).toBeLessThan(1);
    }
  });

  it('the credit says what turns are worth, with one rollout of each row, and goes on from its state', { tags: 'long' }, async () => {
    const credit = ['--set', 'algorithm.advantage.use=./my-credit.ts', '--set', 'algorithm.advantage.args={fade = 0.8}'];
    const small = SMALL.map((value, i) => ({ '-n': '8', '-r': '1' })[SMALL[i - 1]!] ?? value);
    const flags = ['search-r1', ...small, '--set', 'checkpoint.every=1', ...credit];
    expect(await finished(folder.runInProcess(flags, ALONE))).toMatchObject({ reason: 'finished', version: 2 });
    const run = folder.run()!;
    expect(run.rows('step').map((row) => row['credit/rows'])).toEqual([8, 16]);
    const state = (step: string) => join(run.path, 'checkpoints', step, 'parts', 'credit', 'means.json');
    expect(Object.keys(JSON.parse(readFileSync(state('step-000002'), 'utf8')) as object)).toHaveLength(16);
    const replay = folder.replay(run);
    cpSync(join(run.path, 'checkpoints', 'step-000001'), join(replay.path, 'checkpoints', 'step-000001'), { recursive: true });
    await finished(folder.runInProcess(['-R', replay.path], ALONE));
    expect(replay.rows('step').map(({ step }) => step)).toEqual([2]);
    expect(replay.arithmetic()).toEqual(run.arithmetic().slice(1));
    expect(replay.adapterSum()).toBe(run.adapterSum());
  });

  it('the source plays both phases of a step, keeps its state over a kill, and repeats the step to the same weights', { tags: 'long' }, async () => {
    const running = start('./environment.ts', ...SMALL, '--set', 'checkpoint.every=1');
    await folder.reach(running, (run) => run.steps().includes(1));
    await running.kill();
    const run = folder.run()!;
    expect(await finished(start('-R', run.path))).toMatchObject({ reason: 'finished', step: 2 });
    expect(rolloutNames(run.path).filter((name) => !name.includes('asked'))).toEqual([
      'step-000001.look.jsonl',
      'step-000001.play.jsonl',
      'step-000002.look.jsonl',
      'step-000002.play.jsonl',
    ]);
    const [first, second] = run.rows('step').map((row) => row['source/open']!);
    expect(second).toBeGreaterThanOrEqual(first!);
    // Of eight rows, each right with one chance in two, some were right once and wrong once; they changed the weights.
    expect(second).toBeGreaterThan(0);
    expect(run.rows('step').some((row) => row['optimizer_steps'] === 1)).toBe(true);
    const replay = folder.replay(run);
    await finished(start('-R', replay.path));
    expect(replay.arithmetic()).toEqual(run.arithmetic());
    expect(replay.adapterSum()).toBe(run.adapterSum());
  });

  it(
    'the source pays its proposals, and has each of its rows once although it was killed between a step and its checkpoint',
    { tags: 'long' },
    async () => {
      const flags = ['--set', 'algorithm.advantage.scope=role_task', '--set', 'checkpoint.every=2'];
      const running = start('./proposing.ts', ...SMALL, ...flags);
      await folder.reach(running, (run) => existsSync(join(run.path, 'source', 'tasks.jsonl')));
      await running.kill();
      const run = folder.run()!;
      expect(await finished(folder.runInProcess(['-R', run.path], ALONE))).toMatchObject({
        reason: 'finished',
        step: 2,
        source_files: [join(run.path, 'source', 'tasks.jsonl')],
      });
      const tasks = linesOf(join(run.path, 'source', 'tasks.jsonl'));
      expect(tasks.map(({ step }) => step)).toEqual([1, 1, 1, 1, 2, 2, 2, 2]);
      for (const { solved, reward } of tasks) expect(reward).toBe(solved === 0 || solved === 1 ? 0 : 1 - Number(solved));
      for (const row of run.rows('step')) expect(row).toMatchObject({ rollouts: 20, rollouts_failed: 0, 'source/paid': 4 });
      const proposals = recordsOf(rolloutText(run.path, 'step-000001.propose.jsonl'));
      expect(proposals[0]).toMatchObject({ role: 'propose', reward: null, error: null, unpaid: true });
      const notes = linesOf(join(run.path, 'events.jsonl')).filter(({ kind }) => kind === 'note');
      expect(notes.at(-1)).toMatchObject({ step: 2, message: `proposed ${String(tasks[4]!['task'])}` });
    },
  );
});
