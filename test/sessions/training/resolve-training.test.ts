import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseTrain } from '../../cli/train/parse-train.ts';
import { resolveTraining, trainingRunsFolder } from '../../../src/sessions/training/resolve-training.ts';
import { renderConfig } from '../../../src/reports/training/render-config.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { TrainingDirectory } from '../../../src/trainer/records/training-directory.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-train-config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function read(argv: readonly string[], variables: NodeJS.ProcessEnv = {}) {
  const parsed = parseTrain(argv);
  return resolveTraining(parsed, { variables, environmentFile: join(folder, '.env') });
}

const SERVER = ['-b', 'http://h/v1'];
const START = ['search-r1', '-m', 'models/x', ...SERVER];

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** A run as the command leaves it, started this many minutes after midnight. */
async function recordRun(argv: readonly string[], minutes: number): Promise<string> {
  const setup = await read([...argv, '-o', folder]);
  const outputDirectory = trainingRunsFolder(setup.wire.output_dir);
  mkdirSync(outputDirectory, { recursive: true });
  await using directory = await TrainingDirectory.create({
    outputDirectory,
    name: setup.wire.name,
    id: String(readdirSync(outputDirectory).length),
    config: renderConfig(setup, { secrets: [...setup.secrets] }),
    configDigest: '0'.repeat(64),
    startedAt: new Date(Date.UTC(2026, 0, 1, 0, minutes)),
  });
  return directory.path;
}

describe('resolveTraining', () => {
  it('lets flags win over the file, the file over its preset, and --preset over the one of the file', async () => {
    const path = file('run.toml', 'preset = "tinker"\nsteps = 7\n[environment]\nid = "search-r1"\n[model]\npath = "m"\n');
    const ofFile = await read([path, ...SERVER, '--lr', '0.5']);
    expect(ofFile.wire).toMatchObject({ steps: 7, lora: { rank: 32 }, optimizer: { learning_rate: 0.5, beta2: 0.95 } });
    expect(['steps', 'lora.rank', 'optimizer.learning_rate'].map(ofFile.origin)).toEqual([path, 'preset tinker', '--lr']);
    const ofFlag = await read([path, ...SERVER, '--preset', 'search-r1-grpo']);
    expect(ofFlag.wire).toMatchObject({ steps: 7, lora: { rank: 16 }, optimizer: { learning_rate: 1e-5, warmup_steps: 1 } });
  });

  it('takes the server of VF_BASE_URL, of the process or of .env, where nothing else names one', async () => {
    const bare = ['x', '-m', 'm'];
    const { wire, apiKey, origin } = await read(bare, { VF_BASE_URL: 'http://v/v1', VF_MODEL: 'name', VF_API_KEY: 'hunter22' });
    expect(wire.policy).toMatchObject({ base_url: 'http://v/v1', model: 'name', api_key_var: 'VF_API_KEY' });
    expect([apiKey, origin('policy.base_url')]).toEqual(['hunter22', 'VF_BASE_URL']);
    file('.env', 'VF_BASE_URL=http://dotenv/v1\n');
    expect((await read(bare)).wire.policy).toMatchObject({ base_url: 'http://dotenv/v1', api_key_var: null });
    expect((await read([...bare, ...SERVER])).wire.policy.base_url).toBe('http://h/v1');
    expect((await read([...bare, '--launch'])).wire.policy).toMatchObject({ base_url: null, launch: { python: 'python3' } });
  });

  it('takes an environment from the folder of --env-dir-path, with its presets, and records where it is', async () => {
    const own = join(folder, 'envs', 'my-env');
    mkdirSync(join(own, 'presets'), { recursive: true });
    writeFileSync(join(own, 'environment.ts'), '');
    writeFileSync(join(own, 'presets', 'short.toml'), 'steps = 3\n[preset]\nsummary = "short"\n');
    const searched = ['-m', 'm', ...SERVER, '--env-dir-path', join(folder, 'envs')];
    const named = await read(['my_env', '--preset', 'short', ...searched]);
    expect(named.wire).toMatchObject({ steps: 3, name: 'my-env-m', environment: { id: own } });
    const path = file('run.toml', 'preset = "short"\n[environment]\nid = "my-env"\n');
    expect((await read([path, ...searched])).wire).toMatchObject({ steps: 3, environment: { id: own } });
    expect((await read(['search-r1', ...searched])).wire.environment.id).toBe('search-r1');
    await expect(read(['my-emv', ...searched])).rejects.toThrow(/"my-emv" is unknown; looked for .*envs\/my-emv.*did you mean my-env/);
    const recorded = await recordRun(['my-env', '--preset', 'short', ...searched], 0);
    expect((await read(['-R', recorded])).wire.environment.id).toBe(own);
    expect((await read(['my-env', '--preset', 'short', ...searched, '-o', folder, '-R'])).resumeDirectory).toBe(recorded);
  });

  it('knows the secrets of the run', async () => {
    const { secrets } = await read(['x', '-m', 'm', '-b', 'http://user:swordfish@h/v1', '-k', 'KEY', '-a', '{"serper_api_key":"hunter222"}'], {
      KEY: 'sesame-open',
    });
    expect([...secrets]).toEqual(expect.arrayContaining(['swordfish', 'sesame-open', 'hunter222']));
  });

  it.each([
    [['missing.toml'], /Could not read the TOML file missing.toml: there is no such file/],
    [['x', '-m', 'm'], /No policy server is named/],
    [['x', '-m', 'm', '-k', 'NOT_SET', ...SERVER], /environment variable NOT_SET \(policy.api_key_var, --api-key-var\) holds no API key/],
    [['x', '-m', 'm', '-k', 'sk-123', ...SERVER], /name of an environment variable that holds the key, not the key itself/],
    [['x', ...SERVER, '--preset', 'nope'], /Unknown preset "nope"/],
    [['-R', '/nowhere'], /The folder \/nowhere does not exist/],
    [['-R', '/tmp'], /\/tmp is not the folder of a training run: it has no run.json/],
  ])('refuses %j in one line', async (argv, message) => {
    await expect(read(argv)).rejects.toThrow(ConfigError);
    await expect(read(argv)).rejects.toThrow(message);
  });

  it('names vf-eval for an evaluation file', async () => {
    const path = file('runs.toml', '[[eval]]\nenv_id = "capitals"\n');
    await expect(read([path])).rejects.toThrow(`${path} is an evaluation file ([[eval]]). Run it with vf-eval ${path}.`);
  });

  it('continues with the recorded configuration, and says what changed', async () => {
    const path = await recordRun([...START, '--lr', '0.001', '--steps', '5'], 0);
    const same = await read(['-R', path]);
    expect(same).toMatchObject({ resumeDirectory: path, changes: [] });
    expect(same.wire.optimizer.learning_rate).toBe(0.001);
    const longer = await read(['-R', path, '--steps', '9', '-b', 'http://other/v1']);
    expect(longer.changes.map(({ key, before, after }) => [key, before, after])).toEqual([
      ['steps', 5, 9],
      ['policy.base_url', 'http://h/v1', 'http://other/v1'],
    ]);
    await expect(read(['-R', path, '--rank', '4'])).rejects.toThrow(/A resumed run cannot change lora.rank from 16 to 4/);
    await expect(read(['-R', path, '--lr', '0.1'])).rejects.toThrow(/--allow-changes/);
    expect((await read(['-R', path, '--lr', '0.1', '--allow-changes'])).wire.optimizer.learning_rate).toBe(0.1);
    await expect(read([path, ...START.slice(1)])).rejects.toThrow(/is the folder of a run.* vf-train -R/);
  });

  it('knows an edit of config.toml by the settings in run.json, and says so where an earlier version recorded none', async () => {
    const path = await recordRun(START, 1);
    const [config, record] = [join(path, 'config.toml'), join(path, 'run.json')];
    const begun = readFileSync(config, 'utf8');
    writeFileSync(config, begun.replace(/^steps = \S+/m, 'steps = 77'));
    expect((await read(['-R', path])).changes).toEqual([expect.objectContaining({ key: 'steps', after: 77 })]);
    writeFileSync(config, begun.replace(/^seed = \S+/m, 'seed = 8'));
    await expect(read(['-R', path])).rejects.toThrow('cannot change seed from 0 to 8; undo that edit of its config.toml or start a new run');
    expect((await read(['-R', path, '--seed', '0'])).changes).toEqual([]);
    writeFileSync(record, JSON.stringify({ ...(JSON.parse(readFileSync(record, 'utf8')) as object), settings: undefined }));
    expect(await read(['-R', path])).toMatchObject({
      changes: [],
      notices: [expect.stringContaining('an edit of its config.toml would go unnoticed')],
    });
  });

  it('records the adapter that a run starts from by its absolute path', async () => {
    const path = await recordRun([...START, '--set', 'model.initial_adapter=runs/one/adapter'], 0);
    expect((await read(['-R', path])).wire.model).toMatchObject({ path: 'models/x', initial_adapter: resolve('runs/one/adapter') });
  });

  it('records the modules of losses by absolute paths, so that a run can be continued from another folder', async () => {
    const given = ['--set', 'algorithm.loss.use=./mine.ts', '--set', 'losses.a.use=./other.ts', '--set', 'losses.b.use=nll'];
    const path = await recordRun([...START, ...given], 0);
    const { wire } = await read(['-R', path]);
    expect(wire.algorithm.loss.use).toBe(join(process.cwd(), 'mine.ts'));
    expect(wire.losses).toMatchObject({ a: { use: join(process.cwd(), 'other.ts') }, b: { use: 'nll' } });
    expect((await read([...START, ...given, '-o', folder, '-R'])).resumeDirectory).toBe(path);
  });

  it('asks again for secrets that no file holds', async () => {
    const path = await recordRun([...START, '-a', '{"serper_api_key":"hunter222"}'], 0);
    await expect(read(['-R', path])).rejects.toThrow(/environment.args.serper_api_key is a secret/);
    const resumed = await read(['-R', path, '--set', 'environment.args.serper_api_key=hunter222']);
    expect(resumed).toMatchObject({ changes: [], wire: { environment: { args: { serper_api_key: 'hunter222' } } } });
  });

  it('asks again for the password of a URL among the arguments, and for that of a role', async () => {
    const args = ['-a', '{"retriever_url":"http://me:hunter222@h/retrieve"}'];
    const path = await recordRun([...START, ...args], 0);
    await expect(read(['-R', path])).rejects.toThrow(/environment\.args\.retriever_url is a secret/);
    expect(await read(['-R', path, ...args])).toMatchObject({ changes: [] });
    const judged = await recordRun([...START, '--role', 'judge=m@http://me:hunter222@h/v1', '--seed', '7'], 1);
    await expect(read(['-R', judged])).rejects.toThrow(/roles\.judge\.base_url is a secret/);
  });

  it('continues a run whose file gives the warm-up as a share, with more steps too', async () => {
    const path = file('ratio.toml', 'steps = 10\n[optimizer]\nwarmup_ratio = 0.3\n[environment]\nid = "search-r1"\n[model]\npath = "m"\n');
    const run = await recordRun([path, ...SERVER], 0);
    const longer = await read([path, ...SERVER, '--steps', '20', '-o', folder, '-R']);
    expect(longer).toMatchObject({ resumeDirectory: run, wire: { steps: 20, optimizer: { warmup_steps: 3 } } });
    expect((await read([path, ...SERVER, '--steps', '20', '-o', folder, '-R', run])).wire.optimizer.warmup_steps).toBe(3);
  });

  it('starts a server in place of that of a file, its API key included', async () => {
    const path = file('keyed.toml', '[policy]\nbase_url = "http://h/v1"\napi_key_var = "K"\n[environment]\nid = "x"\n[model]\npath = "m"\n');
    expect((await read([path, '--launch'])).wire.policy).toMatchObject({ api_key_var: null, base_url: null });
    expect((await read([path, '--embedded'])).wire.policy).toMatchObject({ api_key_var: null, base_url: null });
  });

  it('-R alone continues the newest run, or with a configuration the newest one that fits it', async () => {
    const first = await recordRun([...START, '--seed', '1'], 1);
    const second = await recordRun([...START, '--seed', '2'], 2);
    expect((await read(['-R', '-o', folder])).resumeDirectory).toBe(second);
    expect((await read([...START, '--seed', '1', '-o', folder, '-R'])).resumeDirectory).toBe(first);
    const neither = await read([...START, '--seed', '3', '-o', folder, '-R']);
    expect(neither).toMatchObject({
      resumeDirectory: null,
      notices: [expect.stringMatching(/can resume \(\S+ has another seed\); starting a new one/)],
    });
    const elsewhere = await read([...START, '--name', 'fresh', '-o', folder, '-R']);
    expect(elsewhere.notices).toEqual([expect.stringMatching(/that this configuration can resume; starting a new one/)]);
    const named = await recordRun([...START, '--seed', '3', '--name', 'warm start: lr 1e-4'], 3);
    expect(named).toMatch(/\/warm-start-lr-1e-4--2$/);
    const [byName, without] = [
      await read([...START, '--seed', '3', '--name', 'warm start: lr 1e-4', '-o', folder, '-R']),
      await read([...START, '--seed', '3', '-o', folder, '-R']),
    ];
    expect([byName, without].map(({ resumeDirectory, changes, config }) => [resumeDirectory, changes, config.name])).toEqual(
      Array.from({ length: 2 }, () => [named, [], 'warm start: lr 1e-4']),
    );
    const other = await read([...START, '--seed', '3', '--name', 'cold', '-o', folder, '-R']);
    expect(other.notices).toEqual([expect.stringMatching(/can resume \(warm-start-lr-1e-4--2 has another name\); starting a new one/)]);
    const renamed = await read(['-R', named, '--name', 'cold']);
    expect(renamed).toMatchObject({ resumeDirectory: named, config: { name: 'cold' }, changes: [{ key: 'name', changeable: true }] });
    writeFileSync(join(named, 'run.json'), '{"schema_ver');
    const damaged = await read([...START, '--seed', '3', '--name', 'warm start: lr 1e-4', '-o', folder, '-R']);
    expect(damaged.notices).toEqual([
      expect.stringMatching(/can resume \(warm-start-lr-1e-4--2: \S+run\.json is not the record of a training run: .*\); starting a new one/),
    ]);
    await expect(read(['-R', '-o', join(folder, 'empty')])).rejects.toThrow(/There is no run to resume under/);
    expect(existsSync(join(folder, 'empty'))).toBe(false);
  });
});

describe('resolveTraining of given rollouts', () => {
  it('takes as many steps as they fill, where a group of theirs may be several of the run', async () => {
    const rollout = (id: string, group: string) =>
      JSON.stringify({
        schema_version: 1,
        rollout_id: id,
        group_id: group,
        example_id: group,
        reward: 0,
        metrics: {},
        stop_condition: 'completed',
        is_truncated: false,
        policy: { model: 'm', version: 0 },
        sampling: {},
        logprobs_mode: 'raw',
        tokenizer_hash: null,
        token_ids: [1, 2],
        loss_mask: [0, 1],
        logprobs: [null, -1],
        prompt_length: 1,
        segments: [
          { kind: 'prompt', start: 0, end: 1, version: null },
          { kind: 'model', start: 1, end: 2, version: 0 },
        ],
      });
    const rollouts = ['a', 'b', 'c'].flatMap((group) => Array.from({ length: 8 }, (_, i) => rollout(`${group}/${i}`, group)));
    const path = file('theirs.jsonl', `${rollouts.join('\n')}\n`);
    const stepsWith = async (size: string) => (await read(['search-r1', '-m', 'models/x', '--rollouts', path, '-n', '3', '-r', size])).wire.steps;
    expect([await stepsWith('8'), await stepsWith('4'), await stepsWith('3')]).toEqual([1, 2, 3]);
    // The share is of the steps that the file fills.
    const warm = await read(['search-r1', '-m', 'models/x', '--rollouts', path, '-n', '1', '-r', '8', '--set', 'optimizer.warmup_ratio=0.4']);
    expect(warm.wire).toMatchObject({ steps: 3, optimizer: { warmup_steps: 1 } });
    const late = read(['search-r1', '-m', 'models/x', '--rollouts', path, '-n', '1', '-r', '8', '--set', 'optimizer.warmup_steps=10']);
    await expect(late).rejects.toThrow(/optimizer.warmup_steps must be at most steps \(3\), got 10/);
  });
});

describe('resolveTraining with files of the user', () => {
  it('continues a supervised run whose number of steps comes from its rows, by the same command with -R', async () => {
    const rows = file('rows.jsonl', '{"prompt": "a", "completion": "b"}\n'.repeat(5));
    const argv = [...START, '--sft', rows, '--set', 'sft.batch_size=2'];
    const recorded = await recordRun(argv, 1);
    const { resumeDirectory, wire } = await read([...argv, '-o', folder, '-R']);
    expect([resumeDirectory, wire.sft.steps]).toEqual([recorded, 3]);
  });
});

describe('resolveTraining of a first run', () => {
  const laptop = ['search-r1', '--preset', 'laptop'];

  it('has all that it needs from the preset: the bundled model by its directory, its world, the embedded engine', async () => {
    const { wire, origin } = await read(laptop, { VF_BASE_URL: 'http://v/v1' });
    expect(wire).toMatchObject({
      environment: { id: 'search-r1', args: { dataset: 'fact-world' } },
      model: { path: join(import.meta.dirname, '../../../models/nano-base') },
      policy: { base_url: null, launch: null, embedded: { threads: null } },
      backend: { kind: 'embedded' },
    });
    expect([origin('environment.args.dataset'), origin('model.path')]).toEqual(['preset laptop', 'preset laptop']);
    expect((await read(['--preset', 'laptop'])).wire).toEqual(wire);
  });

  it('lets flags change any part of it', async () => {
    const { wire } = await read([...laptop, '--steps', '3', '-a', '{"topk": 5}', ...SERVER, '--set', 'backend.kind=torch', '--python', 'py']);
    expect(wire).toMatchObject({
      steps: 3,
      environment: { args: { dataset: 'fact-world', topk: 5 } },
      policy: { base_url: 'http://h/v1', embedded: null },
      backend: { kind: 'torch', python: 'py' },
    });
  });

  it('gives the bundled model its world also without the preset, and no other model', async () => {
    const nano = await read(['search-r1', '-m', 'nano-base', '--embedded']);
    expect(nano.wire.environment.args).toEqual({ dataset: 'fact-world' });
    expect(nano.origin('environment.args.dataset')).toBe('nano-base');
    const named = await read(['search-r1', '-m', 'nano-base', '--embedded', '-a', '{"dataset": "nq-mini"}']);
    expect(named.wire.environment.args).toEqual({ dataset: 'nq-mini' });
    expect((await read(START)).wire.environment.args).toEqual({});
  });

  it('is trained by torch where a Python is named', async () => {
    expect((await read([...laptop, '--python', 'py'])).wire).toMatchObject({ backend: { kind: 'torch', python: 'py' }, policy: { embedded: {} } });
  });

  it('refuses what contradicts it, and near misses, in one line', async () => {
    await expect(read([...laptop, '--set', 'backend.python=py'])).rejects.toThrow(
      /backend.python must be left out with backend.kind = "embedded" .*\(--set\)/,
    );
    await expect(read(['search-r1', '--preset', 'labtop'])).rejects.toThrow(/Unknown preset "labtop" \(did you mean laptop\?\)/);
    await expect(read([...laptop, '--set', 'policy.embedded.cache=1'])).rejects.toThrow(/Unknown key policy.embedded.cache/);
  });
});
