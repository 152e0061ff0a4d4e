/** `vf-rounds run` with the embedded engine and a tiny environment: rounds to their end, also when they are killed in every step. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const SCRIPT = join(import.meta.dirname, '../../src/cli/vf-rounds.ts');

/** Rewards by the letters that the model writes; a page is shown, and NDCG and judge are the reward. */
const ENVIRONMENT = `
import { readFileSync } from 'node:fs';
import { Dataset, metric, MultiTurnEnv, reward, Rubric } from 'vf-search';
const share = ({ modelText }) => ([...modelText].filter((c) => c === 'e').length % 3) / 2;
class Tiny extends MultiTurnEnv {
  setupState() { return { turns: 0 }; }
  envResponse(_kept, _state, { trace }) {
    trace?.('search.response', { query: 'q', page: 'a_1', results: ['a_1'], ms: 1, text: 'Page' });
    return { done: true };
  }
}
export async function loadEnvironment({ dataset, refuses = false }) {
  if (refuses) throw new Error('refuses is set');
  const rows = readFileSync(dataset, 'utf8').trimEnd().split('\\n').map((line) => JSON.parse(line));
  const row = ({ id }) => ({ exampleId: id, prompt: [{ role: 'user', content: 'Question: who is ' + id + '?' }], answer: id, info: { golden_pages: ['a_1'] } });
  return new Tiny({
    id: 'tiny', maxTurns: 1, traces: true, turnFormat: 'continuation', limits: { responseTokens: 12 },
    train: new Dataset('tiny', rows.map(row)), eval: new Dataset('tiny', rows.map(row)),
    rubric: new Rubric({ funcs: [reward(share, { name: 'share' }), metric(share, { name: 'ndcg' }), metric((c) => Number(share(c) === 1), { name: 'judge' })] }),
  });
}
`;
const CONFIG = `
environment = "tiny"
rows = "rows.jsonl"
output = "out"
flags = ["-m", "nano-base", "--embedded", "--rank", "8", "--set", "lora.alpha=16", "--steps", "2", "-n", "3", "-r", "4", "--set", "evaluation.every=0", "--set", "policy.embedded.threads=1"]
[bucket]
low = 0.01
high = 0.99
[focus]
threshold = 0.9
`;

const rowsText = (count: number) => Array.from({ length: count }, (_, i) => `${JSON.stringify({ id: `p${i}` })}\n`).join('');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-rounds-run-'));
  mkdirSync(join(folder, 'environments/tiny'), { recursive: true });
  writeFileSync(join(folder, 'environments/tiny/environment.mjs'), ENVIRONMENT);
  writeFileSync(join(folder, 'rows.jsonl'), rowsText(6));
  writeFileSync(join(folder, 'rounds.toml'), CONFIG);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function start(...flags: readonly string[]) {
  const env = { ...BARE_ENVIRONMENT, HOME: folder };
  // A group of its own, so that the command under way can be killed with it.
  return spawn(process.execPath, ['--conditions=vf-search-source', '--no-warnings', SCRIPT, 'run', 'rounds.toml', ...flags], {
    cwd: folder,
    env,
    detached: true,
  });
}

async function rounds(...flags: readonly string[]) {
  const child = start(...flags);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { status: child.exitCode, stdout, stderr };
}

/** In the process of the test: where no step begins. */
async function roundsHere() {
  const { code: status, ...printed } = await runInProcess('vf-rounds', ['run', 'rounds.toml'], { cwd: folder, env: { HOME: folder } });
  return { status, ...printed };
}

interface State {
  readonly running: { readonly pid: number | null };
  readonly steps: readonly {
    readonly key: string;
    readonly command: readonly string[];
    readonly started_at: string;
    readonly seconds: number;
    readonly run: string | null;
    readonly adapter: string | null;
  }[];
}
const state = () => JSON.parse(readFileSync(join(folder, 'out/state.json'), 'utf8')) as State;

/** The runs of a training that are on file. */
function runsOf(name: string): string[] {
  const train = join(folder, 'out', name, 'train');
  return existsSync(train) ? readdirSync(train).filter((run) => existsSync(join(train, run, 'run.json'))) : [];
}

/** Of vf-train, after its first step. */
const STEP = /^step +1\//m;
const KEYS = ['1/phase1', '1/bucket', '1/focused', '1/extract', '1/finalize', '2/focus', '2/focused', '2/extract', '2/finalize'];

describe('vf-rounds run', () => {
  /** Drives two rounds, killed once in each of these steps: alone, or with the command under way. Returns the steps in which it was. */
  async function driveThroughKills(keys: readonly string[]): Promise<string[]> {
    writeFileSync(join(folder, 'rounds.toml'), `rounds = 2\n${CONFIG.replace('"--steps", "2"', '"--steps", "1"')}`);
    writeFileSync(join(folder, 'rows.jsonl'), rowsText(3));
    const killed: string[] = [];
    for (;;) {
      const child = start();
      let [stderr, key] = ['', null as string | null];
      child.stdout.resume();
      child.stderr.on('data', (chunk) => {
        stderr += String(chunk);
        key ??=
          [...stderr.matchAll(/^vf-rounds run: [^(\n]+\((\d\/\w+)\)(?!.* was done before)/gm)]
            .map(([, found]) => found!)
            .find((found) => keys.includes(found) && !killed.includes(found)) ?? null;
        // The last training is killed once its run is on file, and must be continued there.
        if (key === '2/focused' && runsOf('round-2/focused').length === 0) return;
        if (key !== null && !killed.includes(key)) process.kill(killed.push(key) % 2 === 0 ? child.pid! : -child.pid!, 'SIGKILL');
      });
      await once(child, 'exit');
      if (child.signalCode === null) break;
    }
    const { status, stdout, stderr } = await roundsHere();
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(stderr.match(/was done before/g)).toHaveLength(KEYS.length);
    const { steps } = state();
    expect(steps.map(({ key }) => key)).toEqual(KEYS);
    for (const name of ['round-1/phase1', 'round-1/focused', 'round-2/focused']) expect(runsOf(name)).toHaveLength(1);
    // Each training starts from what the one before it made.
    const [phase1, first, second] = steps.filter(({ run }) => run !== null);
    const config = ({ run }: State['steps'][number]) => readFileSync(join(folder, run!, 'config.toml'), 'utf8');
    expect(config(phase1!)).not.toContain('initial_adapter = "');
    expect([config(first!), config(second!)]).toEqual([expect.stringContaining(phase1!.adapter!), expect.stringContaining(first!.adapter!)]);
    // The report follows the manifests of all of them, and every file is as it was.
    expect(stdout.split('\n').map((line) => line.split(' ')[0])).toEqual([
      'stage',
      'train',
      'bucket',
      'train',
      'extract',
      'finalize',
      'focus',
      'train',
      'extract',
      'finalize',
      '',
    ]);
    return killed;
  }

  it(
    'drives rounds to their end although it is killed in a training and in a stage, and does no finished step again',
    { timeout: 300_000 },
    async () => {
      const keys = ['1/phase1', '1/bucket'];
      expect(await driveThroughKills(keys)).toEqual(keys);
    },
  );

  it('does so although it is killed in every step', { tags: 'long', timeout: 600_000 }, async () => {
    expect(await driveThroughKills(KEYS)).toEqual(KEYS);
  });

  it(
    'keeps a checkpoint at one Ctrl-C, which a terminal sends to the training too, and says how to continue',
    { tags: 'long', timeout: 300_000 },
    async () => {
      writeFileSync(join(folder, 'rounds.toml'), CONFIG.replace('"--steps", "2"', '"--steps", "12"'));
      const child = start();
      let [stderr, stoppedAt] = ['', 0];
      child.stdout.resume();
      child.stderr.on('data', (chunk) => {
        const before = stderr;
        stderr += String(chunk);
        // A group of its own, as a terminal has one for its foreground.
        if (STEP.test(before) || !STEP.test(stderr)) return;
        stoppedAt = Date.now();
        process.kill(-child.pid!, 'SIGINT');
      });
      await once(child, 'close');
      expect({ code: child.exitCode ?? child.signalCode, stderr }).toMatchObject({ code: expect.toBeOneOf([130, 'SIGINT']) });
      const [run, ...others] = readdirSync(join(folder, 'out/round-1/phase1/train')).map((name) => join(folder, 'out/round-1/phase1/train', name));
      expect(others).toEqual([]);
      expect(readdirSync(join(run!, 'checkpoints'))).toContainEqual(expect.stringMatching(/^step-\d+$/));
      expect([...readdirSync(run!), ...readdirSync(join(folder, 'out'))].filter((name) => name.startsWith('.lock'))).toEqual([]);
      expect(stderr).not.toContain('vf-train -R');
      expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/^vf-rounds run: stopped; continue with node .*vf-rounds\.js run rounds\.toml$/);

      // state.json says how the step was made: by the first command, with the time of both processes.
      const goneOn = await rounds();
      expect(goneOn).toMatchObject({ status: 0, stderr: expect.stringContaining('phase 1 (1/phase1), which an earlier process began') });
      const { command, started_at: startedAt, seconds } = state().steps[0]!;
      expect(command.slice(0, 5)).toEqual(['vf-train', 'tiny', '-m', 'nano-base', '--embedded']);
      expect(command).not.toContain('-R');
      expect(Date.parse(startedAt)).toBeLessThan(stoppedAt);
      expect(seconds * 1000).toBeGreaterThanOrEqual(stoppedAt - Date.parse(startedAt));
    },
  );

  it('takes a corrected configuration as long as no step has finished and no training has begun', { tags: 'long', timeout: 240_000 }, async () => {
    const correct = readFileSync(join(folder, 'rounds.toml'), 'utf8');
    writeFileSync(join(folder, 'rounds.toml'), `rows_argument = "lines"\n${correct}`);
    const failed = await rounds();
    expect(failed).toMatchObject({ status: 2, stderr: expect.stringContaining('Round step 1/phase1 (phase 1) failed with exit code 2') });
    expect(state().steps).toEqual([]);
    writeFileSync(join(folder, 'rounds.toml'), correct);
    // Killed in its first step, whose training then exists.
    const child = start();
    let stderr = '';
    child.stdout.resume();
    child.stderr.on('data', (chunk) => {
      stderr += String(chunk);
      if (STEP.test(stderr)) process.kill(-child.pid!, 'SIGKILL');
    });
    await once(child, 'exit');
    expect({ stderr, signal: child.signalCode }).toMatchObject({ signal: 'SIGKILL' });
    writeFileSync(join(folder, 'rounds.toml'), correct.replace('"-n", "3"', '"-n", "2"'));
    const changed = await rounds();
    expect(changed.status).toBe(2);
    expect(changed.stderr).toMatch(
      /^vf-rounds: rounds\.toml has changed since the training in out\/round-1\/phase1\/train\/\S+ was begun; restore it, delete that folder, or name another output \(only "rounds" may change\)\n$/,
    );
  });

  it('says that a training was killed, and by which signal', { timeout: 120_000 }, async () => {
    const child = start();
    let stderr = '';
    child.stdout.resume();
    child.stderr.on('data', (chunk) => {
      const before = stderr;
      stderr += String(chunk);
      if (!STEP.test(before) && STEP.test(stderr)) process.kill(state().running.pid!, 'SIGKILL');
    });
    await once(child, 'close');
    expect({ code: child.exitCode, stderr }).toMatchObject({ code: 1 });
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(
      /^vf-rounds: Round step 1\/phase1 \(phase 1\) was killed by SIGKILL; the machine may have run out of memory\. Free some, then run the same command again\. The step was: /,
    );
  });

  it('goes on at once if another process has got the id of a killed command, and refuses a training that ends without a summary', async () => {
    writeFileSync(
      join(folder, 'environments/tiny/environment.mjs'),
      "export const loadEnvironment = () => (process.removeAllListeners('exit'), process.exit(0));",
    );
    const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', 'vf-train'], { stdio: 'ignore' });
    try {
      const begun = { schema_version: 1, config_sha256: '', package_version: '0', rounds: 1, steps: [] };
      mkdirSync(join(folder, 'out'));
      writeFileSync(join(folder, 'out/state.json'), JSON.stringify({ ...begun, running: { key: '1/phase1', pid: other.pid, start: '1' } }));
      const { status, stderr } = await rounds();
      expect({ status, stderr: stderr.split('\n').slice(-2) }).toEqual({
        status: 1,
        stderr: ['vf-rounds: Round step 1/phase1: vf-train ended without a summary; look at its lines above, then run the same command again', ''],
      });
      expect(stderr).not.toContain('waiting for it');
    } finally {
      other.kill('SIGKILL');
    }
  });

  it('stops at a step that fails, with the exit code of the cause, and goes on from there', { tags: 'long', timeout: 120_000 }, async () => {
    const foreign = join(folder, 'out/round-1/data/bucket-a.jsonl');
    mkdirSync(dirname(foreign), { recursive: true });
    writeFileSync(foreign, 'precious\n');
    const failed = await rounds();
    expect(failed.status).toBe(2);
    expect(failed.stderr).toMatch(
      /\nvf-rounds: Round step 1\/bucket \(buckets\) failed with exit code 2; its own line is above\. Fix this, then run the same command again, /,
    );
    const done = state().steps.map(({ key }) => key);
    expect(done).toEqual(['1/phase1']);
    rmSync(foreign);
    const { status, stdout, stderr } = await rounds();
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(state().steps.map(({ key }) => key)).toEqual(expect.arrayContaining(['1/phase1', '1/bucket']));
    expect(stderr.match(/was done before/g)).toHaveLength(1);
    expect(stdout).toMatch(/^bucket +6 /m);
  });

  it.each([
    [
      'a key that it does not know',
      'row = "x"',
      /Unknown key "row" in rounds\.toml \(did you mean "?rows"?\?\); known are output, environment, rows/,
    ],
    ['no rows', 'rounds = 1', /rounds\.toml has no rows: give the rows of phase 1/],
    ['half a round', 'rows = "rows.jsonl"\nrounds = 1.5', /rounds in rounds\.toml must be a whole number of at least 1, got 1\.5/],
    [
      'an option that the stage does not have',
      'rows = "rows.jsonl"\n[bucket]\nlowest = 1',
      /Unknown key "lowest" in \[bucket\] of rounds\.toml.*; known are low, high/,
    ],
    ['flags that are one text', 'rows = "rows.jsonl"\nflags = "-m x"', /flags in rounds\.toml must be a list of texts, got "-m x"/],
    [
      'an environment that does not exist',
      'rows = "rows.jsonl"\nenvironment = "nope"',
      /environment in rounds\.toml: The environment "nope" is unknown; .*known are tiny, /,
    ],
    [
      'a training without a model',
      'rows = "rows.jsonl"\nenvironment = "tiny"',
      /The training \[phase1\] of rounds\.toml: No model is named; set model\.path \(-m\)/,
    ],
    [
      'a flag of a later training that vf-train does not have',
      'rows = "rows.jsonl"\nenvironment = "tiny"\nflags = ["-m", "nano-base", "--embedded"]\n[sft]\nflags = ["--sett"]',
      /The training \[sft\] of rounds\.toml: Unknown flag --sett/,
    ],
    [
      'a flag with which nothing is trained',
      'rows = "rows.jsonl"\nenvironment = "tiny"\nflags = ["-m", "nano-base", "--embedded"]\n[focused]\nflags = ["--dry-run"]',
      /The training \[focused\] of rounds\.toml: its flags have one with which vf-train starts no training, such as -R, --dry-run or --help/,
    ],
    [
      'a setting of the supervised steps that does not exist',
      `${CONFIG}[sft]\nflags = ["--set", "sft.epochz=2"]`,
      /The training \[sft\] of rounds\.toml: Unknown key sft\.epochz \(--set\)/,
    ],
    [
      'an argument of the focused training that the environment does not have',
      'rows = "page-world"\nflags = ["--preset", "laptop"]\n[focused]\narguments = { max_turnz = 3 }',
      /The arguments of the training \[focused\] of rounds\.toml: visual-rag has no argument "max_turnz"/,
    ],
    [
      'a vetter without a model',
      `${CONFIG}[vet]`,
      /\[vet\] of rounds\.toml names no model; set role = "vetter=MODEL@URL", or set config to a TOML file with a table \[roles\.vetter\]/,
    ],
    [
      'a review without lists',
      `${CONFIG}[review]`,
      /\[review\] of rounds\.toml has no exclude; name at least one list, such as out\/round-1\/data\/review\.jsonl, which the buckets will make/,
    ],
    [
      'rows of which two have one id',
      'rows = "twice.jsonl"\nenvironment = "tiny"',
      /rows in rounds\.toml: twice\.jsonl:2 has the id "p0", as twice\.jsonl:1 has/,
    ],
    [
      'rows that do not exist, with those of the environment',
      'rows = "nope"\nenvironment = "visual-rag"',
      /The data set "nope" does not exist\. Choose deck-mini, page-world \(bundled\), org\/name/,
    ],
    [
      'another start of the supervised steps',
      'rows = "rows.jsonl"\n[sft]\nfrom = "here"',
      /from in \[sft\] of rounds\.toml must be "start" or "focused", got "here"/,
    ],
  ])('refuses %s in one line', async (_, config, message) => {
    writeFileSync(join(folder, 'rounds.toml'), config);
    writeFileSync(join(folder, 'twice.jsonl'), '{"id": "p0"}\n{"id": "p0"}\n');
    const { status, stderr } = await roundsHere();
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(existsSync(join(folder, 'out/state.json'))).toBe(false);
  });

  it('takes all rows of a focused round that has fewer than a step wants', { tags: 'long', timeout: 120_000 }, async () => {
    writeFileSync(join(folder, 'rounds.toml'), `rounds = 1\n${CONFIG}[focused]\nflags = ["-n", "50"]\n`);
    const { status, stderr } = await rounds();
    expect({ status, stderr }).toMatchObject({ status: 0 });
    const rows = /vf-rounds run: focused round 1 has (\d) rows?, so its steps take \1 instead of 50\n/.exec(stderr)?.[1];
    expect(
      state()
        .steps.find(({ key }) => key === '1/focused')!
        .command.slice(0, -2)
        .join(' '),
    ).toContain(`-n ${rows}`);
  });

  it('names --allow-changes at a step that fails after finished ones, and goes on with it', { tags: 'long', timeout: 120_000 }, async () => {
    writeFileSync(join(folder, 'rounds.toml'), `${CONFIG}[focused]\narguments = { refuses = true }\n`);
    const failed = await rounds();
    expect(failed.status).toBe(2);
    expect(failed.stderr).toMatch(
      /\nvf-rounds: Round step 1\/focused \(focused round 1\) failed with exit code 2; its own line is above\. Fix this, then run the same command again, with --allow-changes if you change rounds\.toml\. The step was: /,
    );
    writeFileSync(join(folder, 'rounds.toml'), CONFIG);
    const { status, stderr } = await rounds('--allow-changes');
    expect({ status, stderr }).toMatchObject({ status: 0 });
  });

  it('says that successes have another form than a demonstration, not that they are missing', { tags: 'long', timeout: 120_000 }, async () => {
    writeFileSync(join(folder, 'rounds.toml'), `rounds = 1\n${CONFIG}[extract]\nsuccess = "reward"\nthreshold = 0\nmax_rate = 1\n`);
    const { status, stderr } = await rounds();
    expect({ status, stderr }).toMatchObject({ status: 0 });
    const said = (command: string) =>
      new RegExp(`^vf-rounds ${command} (.*)\\. (\\d+) successes cannot become demonstrations: (.*)$`, 'm').exec(stderr)?.slice(1);
    const [extracted, count, form] = said('extract:')!;
    expect(extracted).toBe('0 to candidates.jsonl in out/round-1/sft-data');
    expect(count).toMatch(/^[1-9]/);
    expect(form).toMatch(/^in (each|\d+), a turn does not think and then act \(<search>, <bbox> or <search_complete>\)/);
    expect(said('run:')).toEqual(['round 1 has no demonstrations; the next one continues from its focused training', count, form]);
    expect(stderr).not.toContain('no rare successes');
  });

  it('follows a changed configuration with --allow-changes, and does no finished step again', { tags: 'long', timeout: 120_000 }, async () => {
    await rounds();
    const before = state().steps;
    writeFileSync(join(folder, 'rounds.toml'), `rounds = 2\n${CONFIG.replace('threshold = 0.9', 'threshold = 1')}`);
    expect((await rounds()).status).toBe(2);
    const { status, stderr } = await rounds('--allow-changes');
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(state().steps.slice(0, before.length)).toEqual(before);
    expect(
      state()
        .steps.find(({ key }) => key === '2/focus')!
        .command.join(' '),
    ).toContain('--threshold 1');
    // The folder belongs to the new configuration from now on.
    expect((await rounds()).status).toBe(0);
  });

  it('refuses a configuration that has changed since', async () => {
    mkdirSync(join(folder, 'out'));
    const step = { key: '1/phase1', command: ['vf-train'], started_at: '', seconds: 1, run: null, adapter: null, reward: {} };
    const begun = { schema_version: 1, config_sha256: 'other', package_version: '0', rounds: 1, running: { key: null, pid: null }, steps: [step] };
    writeFileSync(join(folder, 'out/state.json'), JSON.stringify(begun));
    const { status, stderr } = await roundsHere();
    expect({ status, stderr }).toEqual({
      status: 2,
      stderr:
        'vf-rounds: rounds.toml has changed since out was begun; restore it, add --allow-changes to follow it in the steps to come, or name another output\n',
    });
  });
});
