/** The commands on self-play-code as a newcomer runs them, with Node alone: an evaluation of the baseline, one's own programs, and a run of training that is killed. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { whyMissing } from '../execution/missing-executor.ts';
import { finished, type RunFolder, TrainFolder, type TrainProcess } from '../vllm/train-process.ts';
import { EvalFolder } from './vf-eval-process.ts';
import { rolloutText } from '../trainer/kept-rollouts.ts';

/** No program but Node can be called. */
const ALONE = { PATH: '/nonexistent' };
const missing = await whyMissing('none');
const skipReason = missing === null ? '' : ` (skipped: ${missing})`;
const UNPROTECTED = 'The executor "none" runs what the model writes as your user';

interface Estimate {
  readonly value: number;
  readonly n: number;
}

interface Printed {
  readonly model: string;
  readonly rollouts: { readonly finished: number; readonly errored: number };
  readonly reward: Estimate;
  readonly metrics: Readonly<Record<string, Estimate>>;
  readonly tasks: Readonly<Record<string, { readonly reward: Estimate }>>;
}

describe('vf-eval self-play-code', () => {
  const folder = new EvalFolder();
  afterAll(() => folder[Symbol.dispose]());

  it('names its baseline, and gives the accuracy of each kind and length of program', async () => {
    const { code, stdout, stderr } = await folder.run(['self-play-code', '-n', '20'], ALONE);
    expect(code).toBe(0);
    expect(stderr).toContain('the built-in baseline plays: it answers with the last literal of the prompt');
    expect(stdout).toContain('last-literal-baseline');
    for (const name of ['reward', 'code_o', 'code_i', 'code_f', '2 statements', '3 statements', '4 statements', '5 statements'])
      expect(stdout).toMatch(new RegExp(`^ *${name} +[01]\\.\\d{3} +[01]\\.\\d{3} to [01]\\.\\d{3}$`, 'm'));
    expect(stdout).toMatch(/^rollouts +20 finished, 0 failed$/m);
  });

  it("plays one's own programs, as code_i and code_o", async () => {
    // The last literal of the prompt for code_o is the input, 2, and the one for code_i is the output, 4.
    const rows = [
      { code: 'def f(a):\n    return a * a', input: '2', output: '4' },
      { code: 'def f(a):\n    return abs(a)', input: '7', output: '7' },
    ];
    folder.file('mine.jsonl', rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const { code, stdout } = await folder.run(['self-play-code', '-a', '{"tasks": "mine.jsonl"}', '--json'], ALONE);
    expect(code).toBe(0);
    const printed = JSON.parse(stdout) as Printed;
    expect(printed).toMatchObject({ model: 'last-literal-baseline', rollouts: { finished: 4, errored: 0 }, reward: { value: 0.5 } });
  });

  it.each([
    ['{"kinds": ["code_x"]}', /^vf-eval: kinds must be a list of code_i, code_o, code_f, code_e, none twice, got \["code_x"\]$/],
    ['{"tasks": "nowhere.jsonl"}', /^vf-eval: .*nowhere\.jsonl/],
    ['{"executor": "wasi"}', /^vf-eval: self-play-code has no argument "executor"/],
    ['{"critics": 2}', /^vf-eval: critics needs the rewards "crsp"/],
  ])('refuses %s in one line', async (args, line) => {
    const { code, stdout, stderr } = await folder.run(['self-play-code', '-a', args], ALONE);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.trimEnd()).toMatch(line);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it.skipIf(missing !== null)(`says that the executor "none" protects nothing${skipReason}`, async () => {
    const { code, stdout } = await folder.run(['self-play-code', '-n', '1', '-a', '{"execution": "none"}', '--json']);
    expect(code).toBe(0);
    expect(stdout).toContain(JSON.stringify(UNPROTECTED).slice(1, -1));
  });
});

const SHORT = {
  'evaluation.every': 0,
  'checkpoint.every': 1,
  'checkpoint.keep_rollouts': true,
};
const LAPTOP = [
  'self-play-code',
  '--preset',
  'laptop',
  '-n',
  '3',
  '-o',
  '.',
  ...Object.entries(SHORT).flatMap(([key, value]) => ['--set', `${key}=${value}`]),
];
const TIMEOUT_MS = 180_000;

describe('vf-train self-play-code --preset laptop', { timeout: TIMEOUT_MS }, () => {
  const folders: TrainFolder[] = [];
  const started: TrainProcess[] = [];
  afterAll(async () => {
    await Promise.all(started.map(({ kill }) => kill()));
    for (const folder of folders) folder[Symbol.dispose]();
  });
  const newFolder = () => {
    const folder = new TrainFolder();
    folders.push(folder);
    return folder;
  };
  const start = (folder: TrainFolder, args: readonly string[], variables: Readonly<Record<string, string>> = ALONE) => {
    const run = folder.start(args, variables);
    started.push(run);
    return run;
  };

  it('ends, after a kill in each phase of a step, with the adapter and the programs of an undisturbed run', { tags: 'long' }, async () => {
    const [undisturbed, killed] = [newFolder(), newFolder()];
    // A single held-out program: six hundred would be read again by each process.
    const tasks = join(undisturbed.path, 'held-out.jsonl');
    writeFileSync(tasks, JSON.stringify({ code: 'def f(a):return a', input: '1', output: '1' }));
    const args = [...LAPTOP, '-a', JSON.stringify({ tasks })];
    const summary = await finished<{ readonly reason: string; readonly log_prob_difference: { readonly max: number } }>(
      start(undisturbed, [...args, '--steps', '3']),
    );
    expect(summary).toMatchObject({ reason: 'finished', log_prob_difference: { max: 0 } });
    const whole = undisturbed.run()!;

    const cut: string[] = [];
    let run: RunFolder | null = null;
    for (const [step, phase] of [
      [1, 'propose'],
      [2, 'solve'],
      [3, 'propose'],
    ] as const) {
      const running = start(killed, run === null ? [...args, '--steps', '3'] : ['-R', run.path]);
      run = await killed.reach(running, (is) => linesOf(is, step, phase).length > 0);
      await running.kill();
      if (!linesOf(run, step, phase).at(-1)!.includes('"complete":true')) cut.push(phase);
    }
    expect(new Set(cut)).toEqual(new Set(['propose', 'solve']));
    await finished(start(killed, ['-R', run!.path]));
    expect(run!.adapterSum()).toBe(whole.adapterSum());
    expect(run!.arithmetic()).toEqual(whole.arithmetic());
    const programs = (is: RunFolder) => readFileSync(join(is.path, 'source/programs.jsonl'), 'utf8');
    expect(programs(run!)).toBe(programs(whole));
    expect(programs(whole).trimEnd().split('\n').length).toBeGreaterThan(3);
  });

  it.skipIf(missing !== null)(`says that the executor "none" protects nothing, before anything is played${skipReason}`, async () => {
    const { code, stderr } = await newFolder().runInProcess([...LAPTOP, '-a', '{"execution": "none"}', '--dry-run']).ended;
    expect(code).toBe(0);
    expect(stderr).toContain(UNPROTECTED);
  });

  it('refuses an unusable argument in one line, and leaves nothing behind', async () => {
    const folder = newFolder();
    const { code, stdout, stderr } = await folder.runInProcess([...LAPTOP, '-a', '{"kinds": []}'], ALONE).ended;
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/kinds must be a list/);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(folder.run()).toBeNull();
  });
});

/** Whole lines of a phase's rollouts; none while there is no file. */
function linesOf({ path }: RunFolder, step: number, phase: string): string[] {
  try {
    return rolloutText(path, `step-${String(step).padStart(6, '0')}.${phase}.jsonl`)
      .split('\n')
      .slice(0, -1);
  } catch {
    return [];
  }
}
