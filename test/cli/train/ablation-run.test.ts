/** vf-train on files with `[[ablation]]`: short trainings of the embedded engine, and what a user finds afterwards. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TrainFolder, type TrainProcess } from '../../vllm/train-process.ts';
import { until } from '../../transport/loopback.ts';
import { runInProcess } from '../in-process.ts';
import { ALONE } from './laptop-runs.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SMALL = `preset = "laptop"
steps = 2
output_dir = "."
[environment]
id = "search-r1"
[rollouts]
examples_per_step = 2
rollouts_per_example = 2
[evaluation]
examples = 4
rollouts_per_example = 1
[checkpoint]
every = 1
[policy.embedded]
threads = 1
`;
const RATES = '[[ablation]]\nname = "two rates"\nseeds = [0, 3]\n[ablation.sweep]\n"optimizer.learning_rate" = [1e-3, 1e20]\n';

interface Run {
  readonly state: string;
  readonly reason: string | null;
  readonly counts: boolean;
  readonly seed: number;
  readonly last: object | null;
  readonly directory: string;
}
interface Printed {
  readonly ablations: readonly {
    readonly name: string;
    readonly directory: string;
    readonly runs: readonly ({ readonly reason: string } | null)[];
    readonly comparison: { readonly groups: readonly { readonly label: string; readonly last: object | null; readonly runs: readonly Run[] }[] };
  }[];
}

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

const write = (text: string) => writeFileSync(join(folder.path, 'rates.toml'), text);
const play = (...args: readonly string[]) => folder.runInProcess(['rates.toml', ...args], ALONE).ended;
const command = (name: string, ...args: readonly string[]) => runInProcess(name, args, { cwd: folder.path, env: ALONE });
const folders = () => readdirSync(join(folder.path, 'train')).filter((name) => name !== 'ablations');
const ablationFolder = () => join('train/ablations', readdirSync(join(folder.path, 'train/ablations'))[0]!);

describe('vf-train with [[ablation]]', { timeout: 180_000 }, () => {
  it('plays every run in a folder of its own, counts no run that diverged, ends with exit code 1, and vf-compare prints its table again', async () => {
    write(`${SMALL}[guards]\non_alarm = "stop"\n${RATES}`);
    const { code, stdout, stderr } = await play();
    const [{ name, directory, runs, comparison }] = (JSON.parse(stdout) as Printed).ablations as [Printed['ablations'][number]];
    expect({ code, name, runs: runs.length, folders: folders().length }).toEqual({ code: 1, name: 'two rates', runs: 4, folders: 4 });
    expect(stderr).toMatch(/^run 1 of 4: lr 0\.001, seed 0$/m);
    expect(stderr).toMatch(/^run 2 of 4: lr 0\.001, seed 3 {2}\(about .* left\)$/m);
    expect(stderr).toMatch(/continue the others with .*vf-train\S* rates\.toml .*-R$/m);
    expect(stderr).toMatch(
      /2 runs stopped or collapsed in a way that a lower learning rate may avoid, first lr 1e20, seed 0\. Lower it in \[ablation\.sweep\] of rates\.toml;/,
    );
    expect(`${stderr}${stdout}`).not.toMatch(/--allow-changes/);
    const [good, diverged] = comparison.groups;
    expect(good).toMatchObject({
      label: 'lr 0.001',
      last: { n: 2, over: 'seeds' },
      runs: [
        { state: 'finished', seed: 0 },
        { state: 'finished', seed: 3 },
      ],
    });
    expect(diverged).toMatchObject({ label: 'lr 1e20', last: null });
    for (const run of diverged!.runs)
      expect(run).toMatchObject({ counts: false, state: expect.stringMatching(/^(stopped|failed)$/), reason: expect.stringMatching(/\w/) });
    const config = readFileSync(join(folder.path, 'train', folders()[0]!, 'config.toml'), 'utf8');
    expect(config).toMatch(/^name = "two rates: lr \S+, seed \d"/m);
    const again = await command('vf-compare', directory, '--json');
    expect(JSON.parse(again.stdout)).toEqual(comparison);
    expect(readFileSync(join(directory, 'table.md'), 'utf8')).toMatch(/^# two rates\n\n4 runs in 2 groups; held-out reward of search-r1\./);
    const shown = await command('vf-compare', ablationFolder());
    expect(shown.stdout).toMatch(/^B +– +/m);
    expect(shown.stdout).toMatch(/no test: no run of B counts/);
  });

  it('goes on after kill -9: a finished run is not repeated, the broken one continues, the last one begins', { tags: 'long' }, async () => {
    // Seed 2 skips both steps, which is no success.
    write(`${SMALL}[[ablation]]\nseeds = [0, 1, 3]\n`);
    const first = folder.start(['rates.toml'], ALONE);
    started.push(first);
    await until(() => /step 1\/2 {2}reward/.test(first.said().split('run 2 of 3')[1] ?? ''));
    await first.kill();
    const before = JSON.parse(readFileSync(join(folder.path, ablationFolder(), 'ablation.json'), 'utf8')) as {
      runs: { state: string; folder: string | null }[];
    };
    expect(before.runs.map(({ state }) => state)).toEqual(['finished', 'running', 'planned']);
    const halfway = await command('vf-compare', ablationFolder());
    expect(halfway.stdout).toMatch(/seed 1 +not finished at step \d of 2, not counted: it was killed, or is running/);
    const finishedAt = readFileSync(join(folder.path, 'train', before.runs[0]!.folder!, 'run.json'), 'utf8');
    const { code, stdout, stderr } = await play('-R');
    const [{ comparison }] = (JSON.parse(stdout) as Printed).ablations as [Printed['ablations'][number]];
    expect({ code, folders: folders().length }).toEqual({ code: 0, folders: 3 });
    expect(comparison.groups[0]).toMatchObject({ last: { n: 3, over: 'seeds' } });
    expect(readFileSync(join(folder.path, 'train', before.runs[0]!.folder!, 'run.json'), 'utf8')).toBe(finishedAt);
    expect(stderr).toMatch(/has already finished/);
    expect(stderr.split('run 2 of 3')[1]).toMatch(/Resumed/);
    expect(readdirSync(join(folder.path, 'train/ablations'))).toHaveLength(1);
    write(`${SMALL}[[ablation]]\nseeds = [0, 1]\n`);
    const shorter = await play('-R');
    expect(shorter.stderr).toMatch(/the file no longer describes seed 3: left out of the table, and kept in train$/m);
    expect((JSON.parse(shorter.stdout) as Printed).ablations[0]!.comparison.groups[0]).toMatchObject({ last: { n: 2 } });
    write(`${SMALL.replace('steps = 2', 'seed = 2')}[[ablation]]\nseeds = [0, 1]\n"lora.rank" = 4\n`);
    expect((await play('-R')).stderr).toMatch(/^vf-train: Run 1 of 2 of .* \(seed 0\): .*A resumed run cannot change lora\.rank from 8 to 4/);
    rmSync(join(folder.path, 'train', before.runs[1]!.folder!), { recursive: true });
    const gone = await command('vf-compare', ablationFolder());
    expect(gone.stdout).toMatch(/seed 1 +not finished, not counted: its folder is gone/);
  });

  it('lists its runs with --dry-run and begins none', async () => {
    write(SMALL + RATES);
    const { code, stdout } = await command('vf-train', 'rates.toml', '--dry-run');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^two rates: 4 runs, 8 steps, 32 rollouts to train on \(at most 65,536 tokens\)$/m);
    expect(stdout).toMatch(/^ +2 {2}lr 0\.001, seed 3 {2}2 steps, 8 rollouts$/m);
    expect(stdout.match(/^Checked$/gm)).toHaveLength(1);
    const needs = (text: string) => Number(new RegExp(`${text} about ([\\d.]+)`).exec(stdout)?.[1]);
    expect(needs('the 4 runs together need')).toBeCloseTo(4 * needs('the run needs'), 0);
    expect(existsSync(join(folder.path, 'train'))).toBe(false);
    const json = await command('vf-train', 'rates.toml', '--dry-run', '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({
      ablations: [
        { name: 'two rates', most_tokens: 65_536, gpu_hours: null, usd: null, runs: [{ settings: { seed: 0 }, state: 'planned' }, {}, {}, {}] },
      ],
    });
  });

  it('checks each set-up once with --dry-run', async () => {
    write(`${SMALL}[[ablation]]\nseeds = [0, 1]\n[ablation.sweep]\n"evaluation.examples" = [4, 5]\n`);
    const { code, stdout } = await command('vf-train', 'rates.toml', '--dry-run');
    expect(stdout).toMatch(/^Run 3 of 4 of \[\[ablation\]\] 1 of rates\.toml \(examples 5, seed 0\):\n\nChecked$/m);
    expect({ code, lists: stdout.match(/^ok +rows /gm)?.length }).toEqual({ code: 0, lists: 2 });
  });

  it('says so before it begins when there are more than 200 runs', async () => {
    // An argument that the environment refuses ends it before the first run.
    write(`${SMALL}[environment.args]\ntopk = -1\n[[ablation]]\nseeds = 201\n`);
    const { code, stderr } = await play();
    expect(stderr).toMatch(/^vf-train: 201 runs, one after the other; --dry-run lists them/m);
    expect({ code, begun: existsSync(join(folder.path, 'train')) }).toEqual({ code: 2, begun: false });
  });

  it.each([
    [
      'an unknown key',
      '"optimizer.lr" = [1e-3]',
      /^vf-train: Run 1 of 1 of \[\[ablation\]\] 1 of rates\.toml \(lr 0\.001\): Unknown key optimizer\.lr .*did you mean optimizer\.learning_rate\?/,
    ],
    [
      'a bad value of a later run',
      '"lora.rank" = [8, 0]',
      /^vf-train: Run 2 of 2 of .* \(rank 0\): lora\.rank \(\[\[ablation\]\] 1 of rates\.toml\) must be an integer/,
    ],
    [
      'values that mean the same',
      '"policy.embedded.threads" = [1, 1.0]',
      /Runs 1 \(threads 1\) and 2 \(threads 1\) of .* have the same settings\. .*leave one out/,
    ],
    ['a seed twice', 'seed = [1, 2, 1]', /Runs 1 \(seed 1\) and 3 \(seed 1\) of .* have the same settings/],
    ['settings that do not go together', '"rollouts.rollouts_per_example" = [2, 1]', /^vf-train: Run 2 of 2 .*rollouts_per_example/],
    [
      'an argument that the environment refuses',
      '"environment.args.topk" = [3, -1]',
      /^vf-train: Run 2 of 2 of .* \(topk -1\): topk must be an integer of at least 1, got -1/,
    ],
  ])('refuses %s before any run begins', async (_, sweep, message) => {
    write(`${SMALL}[[ablation]]\n[ablation.sweep]\n${sweep}\n`);
    const { code, stderr } = await play();
    expect(stderr).toMatch(message);
    expect({ code, begun: existsSync(join(folder.path, 'train')) }).toEqual({ code: 2, begun: false });
  });

  it.each([
    [
      'a flag for a swept key',
      ['--lr', '1e-4'],
      /optimizer\.learning_rate is swept by \[\[ablation\]\] 1 of rates\.toml and set by --lr\. Leave one out/,
    ],
    ['a flag for the seed', ['--seed', '4'], /seed is swept by .* and set by --seed/],
    ['a name for all of them', ['--name', 'x'], /--name names one run, but \[\[ablation\]\] 1 of rates\.toml describes 4/],
    ['a folder to resume', ['-R', 'train'], /-R takes no folder with rates\.toml/],
    ['a push', ['--push', 'me/searcher'], /--push uploads one adapter, but rates\.toml describes 4 runs/],
    ['rollouts from stdin', ['--rollouts', '-'], /stdin can be read once, but .* describes 4 runs/],
  ])('refuses %s', async (_, flags, message) => {
    write(SMALL + RATES);
    const { code, stderr } = await play(...flags);
    expect({ code, begun: existsSync(join(folder.path, 'train')) }).toEqual({ code: 2, begun: false });
    expect(stderr).toMatch(message);
  });

  it('the example of configs/train has six runs', async () => {
    const { code, stdout } = await command('vf-train', join(ROOT, 'configs/train/two-learning-rates.toml'), '--dry-run');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^two-learning-rates: 6 runs, 48 steps, 3,072 rollouts/m);
  });
});

describe('files of several runs at the wrong command', { timeout: 120_000 }, () => {
  it('is told which command plays them', async () => {
    write(SMALL + RATES);
    expect((await command('vf-eval', 'rates.toml')).stderr).toMatch(/rates\.toml is a file of trainings.*Run it with vf-train rates\.toml/);
    write('num_examples = 1\n[[ablation]]\nenv_id = "search-r1"\n[ablation.sweep.args]\ntopk = [1]\n');
    expect((await play()).stderr).toMatch(/rates\.toml is an evaluation file \(\[\[ablation\]\]\)\. Run it with vf-eval rates\.toml/);
  });

  it('goes on with -R after Ctrl-C, and says so where -R is given its folder', async () => {
    write(`${SMALL}[[ablation]]\nseeds = 2\n`);
    const run = folder.start(['rates.toml'], ALONE);
    started.push(run);
    await until(() => /step 1\/2 {2}reward/.test(run.said()));
    run.child.kill('SIGINT');
    const { stderr } = await run.ended;
    expect(stderr).toMatch(/finished runs are kept; continue the others with .* rates\.toml .*-R$/m);
    const { runs } = JSON.parse(readFileSync(join(folder.path, ablationFolder(), 'ablation.json'), 'utf8')) as { runs: { state: string }[] };
    expect(runs.map(({ state }) => state)).toEqual(['interrupted', 'planned']);
    expect(folders()).toHaveLength(1);
    const record = join(folder.path, ablationFolder(), 'ablation.json');
    const whole = readFileSync(record, 'utf8');
    writeFileSync(record, whole.slice(0, -20));
    const damaged = await play('-R');
    expect({ code: damaged.code, folders: folders().length }).toEqual({ code: 2, folders: 1 });
    expect(damaged.stderr).toMatch(/ablation\.json is not the record of an ablation: .*Restore the file, or start the ablation again without -R/);
    writeFileSync(record, whole);
    const refused = await command('vf-train', '-R', ablationFolder());
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/is the folder of an ablation\. Continue it with the file that describes it: vf-train FILE\.toml -R/);
    const { code, stderr: again } = await play('-R');
    expect({ code, folders: folders().length }).toEqual({ code: 0, folders: 2 });
    expect(again.split('run 2 of 2')[0]).toMatch(/Resumed/);
    expect((await play('-R')).stderr.match(/has already finished/g)).toHaveLength(2);
  });
});
