/** `vf-train -R` of a finished run, with Node alone. */
import { createHash } from 'node:crypto';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, isAbsolute, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { finishedRun } from '../../../src/sessions/training/finished-run.ts';
import type { TrainingSetup } from '../../../src/sessions/training/resolve-training.ts';
import { someConfig } from '../../trainer/some-config.ts';
import { finished, type RunFolder, TrainFolder } from '../../vllm/train-process.ts';

const SETTINGS = ['evaluation.every=2', 'evaluation.examples=4', 'rollouts.repeat_pause_s=0', 'policy.embedded.threads=1'].flatMap((text) => [
  '--set',
  text,
]);
const ALONE = { PATH: '/nonexistent', VF_BASE_URL: '' };

const folder = new TrainFolder();
let run: RunFolder;
let printed: object;
const edit = (file: string, change: (text: string) => string) =>
  writeFileSync(join(run.path, file), change(readFileSync(join(run.path, file), 'utf8')));
const resume = (...args: readonly string[]) => folder.runInProcess(['-R', run.path, ...args], ALONE);

describe('finishedRun', { timeout: 120_000 }, () => {
  beforeAll(async () => {
    const words = ['search-r1', '--preset', 'laptop', '--steps', '2', '-n', '2', '-r', '2', '-o', '.', ...SETTINGS];
    printed = await finished<object>(folder.runInProcess(words, ALONE));
    run = folder.run()!;
  }, 120_000);
  afterAll(() => folder[Symbol.dispose]());

  it('says so in one line, prints the same object again, and leaves every file as it was', async () => {
    const before = run.files();
    const { code, stdout, stderr } = await resume().ended;
    expect({ code, printed: JSON.parse(stdout) as object }).toEqual({ code: 0, printed });
    expect(stderr).toMatch(/^vf-train: \S+ has already finished its 2 steps; its adapter is in \S+; raise --steps to continue\n$/);
    expect(run.files()).toEqual(before);
  });

  it('has a card and a configuration with its adapter, which name no path of this machine', () => {
    const adapter = join(run.path, 'checkpoints/step-000002/adapter');
    const card = readFileSync(join(adapter, 'README.md'), 'utf8');
    expect(card).toMatch(/^---\nlibrary_name: peft\npipeline_tag: text-generation\nlicense: apache-2\.0\ntags:\n/);
    expect(card).toMatch(/\n\| 2 \| \d\.\d{3} \| \d\.\d{3} \|\n/);
    expect(card).toMatch(/\nnpx vf-train config\.toml\n/);
    expect(readFileSync(join(adapter, 'reward.png'))).toEqual(readFileSync(join(run.path, 'plots/reward.png')));
    const { base_model_name_or_path: base } = JSON.parse(readFileSync(join(adapter, 'adapter_config.json'), 'utf8')) as Record<string, string>;
    expect([isAbsolute(base!), basename(base!)]).toEqual([false, 'nano-base']);
    const config = readFileSync(join(adapter, 'config.toml'), 'utf8');
    expect(config).toMatch(/\nsteps = 2 .*\n[^]*\npath = "nano-base"\n/);
    for (const text of [card, config]) expect(text).not.toContain(run.path);
  });

  it('refuses an end that the run has passed, and leaves every file as it was', async () => {
    const before = run.files();
    const { code, stdout, stderr } = await resume('--steps', '1').ended;
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toBe('vf-train: This run has already taken 2 steps, more than steps = 1; raise steps, or leave out -R to start a new run\n');
    expect(run.files()).toEqual(before);
  });

  it('keeps a setting that has no effect on a finished run, and says so', async () => {
    const before = run.files();
    const { code, stderr } = await resume('--lr', '5e-4', '--allow-changes').ended;
    expect(code).toBe(0);
    expect(stderr).toMatch(/raise --steps to continue\. The change of optimizer\.learning_rate has no effect and was not saved\n$/);
    expect(run.files()).toEqual(before);
  });

  it('keeps its settings where a resume cannot start with those that were asked for', async () => {
    const config = () => readFileSync(join(run.path, 'config.toml'), 'utf8');
    const before = config();
    const { code, stderr } = await resume('--steps', '3', '--set', 'policy.embedded.cache_tokens=1').ended;
    expect([code, stderr]).toEqual([2, expect.stringContaining('cache_tokens')]);
    expect(config()).toBe(before);
    await finished(resume());
    expect(run.steps()).toEqual([1, 2]);
  });

  it('refuses an edit of config.toml as it does the flag', async () => {
    edit('config.toml', (text) => text.replace(/^learning_rate = 0\.001/m, 'learning_rate = 5e-4'));
    const before = run.files();
    const refused = await resume('--steps', '3').ended;
    expect([refused.code, refused.stderr]).toEqual([
      2,
      'vf-train: A resumed run cannot change optimizer.learning_rate from 0.001 to 5e-4; undo that edit of its config.toml, add --allow-changes to change it anyway, or start a new run\n',
    ]);
    expect(run.files()).toEqual(before);
  });

  it('records what a resume changes, by an edit of config.toml or by a flag', async () => {
    const summary = await finished<{ changed_settings: object }>(resume('--steps', '3', '--allow-changes'));
    expect(run.events().filter(({ kind }) => kind === 'settings_changed')).toEqual([
      expect.objectContaining({
        step: 2,
        message: 'Changed steps from 2 to 3; optimizer.learning_rate from 0.001 to 5e-4',
        changes: [
          { key: 'steps', before: 2, after: 3 },
          { key: 'optimizer.learning_rate', before: 0.001, after: 5e-4 },
        ],
      }),
    ]);
    const values = [1, 3].map((from, i) => ({ from, value: [0.001, 5e-4][i] }));
    expect(summary.changed_settings).toEqual([{ key: 'optimizer.learning_rate', values }]);
    const card = readFileSync(join(run.path, 'checkpoints/step-000003/adapter/README.md'), 'utf8');
    expect(card).toContain('lr 0.001 in steps 1-2, then 5e-4. It is');
  });

  it('lets the run continue when there is more to do: a later end, or a last checkpoint that is damaged', async () => {
    await finished(resume('--steps', '4'));
    expect(run.steps()).toEqual([1, 2, 3, 4]);
    // The last checkpoint: the run continues from the one before it.
    appendFileSync(join(run.path, 'checkpoints', run.names('checkpoints').at(-1)!, 'adapter/adapter_model.safetensors'), 'x');
    await finished(resume());
    expect(run.events().map(({ kind }) => kind)).toContain('alarm');
    expect(run.steps()).toEqual([1, 2, 3, 4]);
  });

  it('opens a run again that an earlier version marked as finished although its last version never served', async () => {
    appendFileSync(join(run.path, 'events.jsonl'), `${JSON.stringify({ step: 4, kind: 'publish_failed', time: new Date(0), message: 'no room' })}\n`);
    const before = run.events().length;
    await finished(resume());
    expect(
      run
        .events()
        .slice(before)
        .map(({ kind }) => kind),
    ).toEqual(['resumed', 'finished']);
    expect((await resume().ended).stderr).toContain('has already finished');
  });

  it('opens a run again that an earlier version marked as finished although it trained nothing', async () => {
    const setup = { config: someConfig({ steps: 4 }), changes: [], resumeDirectory: run.path } as unknown as TrainingSetup;
    const found = async () => (await finishedRun(setup))?.outcome.version ?? null;
    expect(await found()).toBe(4);
    // Its evaluation is of the version that it says.
    edit('metrics.jsonl', (text) => text.replaceAll(/"policy_version":\s*4\b/g, '"policy_version":0'));
    edit(join('checkpoints', run.names('checkpoints').at(-1)!, 'checkpoint.json'), (text) => {
      const { sha256: _, ...content } = Object.assign(JSON.parse(text) as Record<string, unknown>, { version: 0 });
      return JSON.stringify({ ...content, sha256: createHash('sha256').update(JSON.stringify(content)).digest('hex') });
    });
    expect(await found()).toBeNull();
  });
});
