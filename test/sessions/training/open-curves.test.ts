import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseTrain } from '../../cli/train/parse-train.ts';
import { SettingHistory } from '../../../src/trainer/records/setting-history.ts';
import { openCurves, type OpenCurvesOptions } from '../../../src/sessions/training/run-training.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';
import { renderConfig } from '../../../src/reports/training/render-config.ts';
import { TrainingDirectory } from '../../../src/trainer/records/training-directory.ts';

let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'vf-curves-'));
});
afterEach(() => rmSync(parent, { recursive: true }));

const SECRETS = ['sk-of-the-policy', 'serper-0123456789', 'hunter22'];
/** A run whose configuration holds secrets wherever one may stand. */
const WITH_SECRETS = ['-b', 'http://me:hunter22@h/v1', '-k', 'MY_KEY', '-a', '{"serper_api_key": "serper-0123456789"}'].concat(
  '--eval-args',
  '{"note": "uses sk-of-the-policy"}',
);

/** Opens the curves of `vf-train search-r1 ...` as the command does, starts and ends the run. Returns the text of every file that they wrote. */
async function written(args: readonly string[], changed: Pick<OpenCurvesOptions, 'history' | 'changes'> = {}): Promise<Map<string, string>> {
  const given = parseTrain(['search-r1', '-m', 'nano-base', ...args]);
  const setup = await resolveTraining(given, { variables: { MY_KEY: 'sk-of-the-policy' }, environmentFile: join(parent, 'none') });
  const configText = renderConfig(setup, { secrets: [...setup.secrets] });
  const options = { outputDirectory: parent, name: 'run', id: '01234567', config: configText, configDigest: '', startedAt: new Date(0) };
  await using directory = await TrainingDirectory.create(options);
  const notes: string[] = [];
  for (const log of openCurves({ ...changed, setup, directory, configText, secrets: setup.secrets, warn: (line) => notes.push(line) })) {
    log.onStart({ step: changed.history === undefined ? 0 : 8, rows: [] });
    log.onStep({ kind: 'step', step: 1, time: new Date(0).toISOString(), values: { loss: 1 } });
    log.close({ isFinished: true });
  }
  expect(notes).toEqual([]);
  const files = readdirSync(directory.path, { recursive: true, encoding: 'utf8', withFileTypes: true }).filter((entry) => entry.isFile());
  const curves = files.map(({ parentPath, name }) => join(parentPath, name)).filter((path) => /tensorboard|wandb/.test(path));
  return new Map(curves.map((path) => [path.slice(directory.path.length + 1), readFileSync(path, 'latin1')]));
}

describe('openCurves', () => {
  it('writes no curves unless they are asked for', async () => {
    expect([...(await written(['--embedded'])).keys()]).toEqual([]);
  });

  it('writes those that the flags name, with the settings of the run', async () => {
    const files = await written(['--embedded', '--tensorboard', '--wandb', 'my-project', '--lr', '0.125']);
    expect([...files.keys()].toSorted()).toEqual([
      expect.stringMatching(/^tensorboard\/events\.out\.tfevents\.\d{10}\.vf-search$/),
      expect.stringMatching(/^wandb\/offline-run-\d{8}_\d{6}-01234567\/run-01234567\.wandb$/),
    ]);
    const [tensorboard, wandb] = [...files].toSorted(([a], [b]) => a.localeCompare(b)).map(([, text]) => text);
    expect(tensorboard).toContain('optimizer.learning_rate');
    expect(tensorboard).toContain('    learning_rate = 0.125  # --lr');
    for (const part of ['my-project', 'run--01234567', '"learning_rate":0.125', 'train/loss']) expect(wandb).toContain(part);
  });

  it('shows every value of a setting that changed between the steps, with its steps', async () => {
    const history = new SettingHistory();
    const rate = (before: number, after: number) => ({ key: 'optimizer.learning_rate', before, after });
    history.add({ kind: 'settings_changed', step: 4, message: '', changes: [rate(0.5, 0.25)] });
    const files = await written(['--embedded', '--tensorboard', '--wandb', 'p', '--lr', '0.125'], { history, changes: [rate(0.25, 0.125)] });
    for (const text of files.values()) expect(text).toContain('0.5 in steps 1-4, 0.25 in steps 5-8, then 0.125');
  });

  it('takes what W&B shows of a run from [logging.wandb]', async () => {
    const set = ['project=p', 'entity=my-team', 'group=sweep 3', 'tags=["a tag"]'].flatMap((each) => ['--set', `logging.wandb.${each}`]);
    const [text] = (await written(['--embedded', ...set])).values();
    for (const part of ['my-team', 'sweep 3', 'a tag']) expect(text).toContain(part);
  });

  it('hides every secret', async () => {
    const files = await written([...WITH_SECRETS, '--tensorboard', '--wandb', 'p']);
    expect(files.size).toBe(2);
    for (const [path, text] of files) {
      expect(text).toContain('***');
      for (const secret of SECRETS) expect({ path, secret, isShown: text.includes(secret) }).toEqual({ path, secret, isShown: false });
    }
  });
});
