import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ModelCardsOptions, writeModelCards } from '../../../src/reports/training/write-model-cards.ts';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';
import { SettingHistory } from '../../../src/trainer/records/setting-history.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { supervisedRows, trainingRows } from '../../cli/train/training-rows.ts';

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

function options(changes: Partial<ModelCardsOptions> = {}): ModelCardsOptions {
  const { config, wire } = resolveTrainingConfig([presetLayer(presetNamed('laptop', null)), { source: '--set', table: { steps: 30 } }]);
  const common = {
    rows: trainingRows(),
    history: new SettingHistory(),
    evaluationLabel: 'held-out',
    plots: [],
    variables: {},
    redact: String,
  } as const;
  return { config, wire, ...common, adapter: null, best: null, ...changes };
}

function place(at: string): string {
  mkdirSync(join(folder.path, at), { recursive: true });
  return join(folder.path, at);
}

const cardIn = (directory: string) => readFileSync(join(directory, 'README.md'), 'utf8');
const configIn = (directory: string) => readFileSync(join(directory, 'config.toml'), 'utf8');

describe('writeModelCards', () => {
  it('gives each adapter a card of what led to it, and the picture of rewards, or else of losses', async () => {
    const adapter = place('checkpoints/step-000020.2/adapter');
    const bestAdapter = place('best/adapter');
    const best = { metric: 'validation_nll', step: 5, version: 5, value: 0.4, adapter: bestAdapter } as const;
    const plots = ['overview.png', 'loss.png', 'reward.svg', 'reward.png'].map((name) => folder.write(name, name));
    await writeModelCards(options({ adapter, best, plots }));
    expect(cardIn(adapter)).toContain('It is the adapter after step 20 of 30.');
    expect(cardIn(adapter)).toMatch(/\n\| 20 \| \d\.\d{3} \| \d\.\d{3} \|\n\n/);
    expect(cardIn(bestAdapter)).toContain('It is the adapter with the lowest validation loss, after step 5 of 30.');
    expect(cardIn(bestAdapter)).toMatch(/\n\| 5 \| \d\.\d{3} \| \d\.\d{3} \|\n\n/);
    for (const each of [adapter, bestAdapter]) {
      expect(readdirSync(each).toSorted()).toEqual(['README.md', 'config.toml', 'reward.png']);
      expect(cardIn(each)).toContain('](reward.png)');
    }
    await writeModelCards(options({ adapter: place('checkpoints/step-000012/adapter'), rows: supervisedRows(), plots: plots.slice(0, 2) }));
    expect(readdirSync(join(folder.path, 'checkpoints/step-000012/adapter')).toSorted()).toEqual(['README.md', 'config.toml', 'loss.png']);
  });

  it('says of each adapter which settings it was trained with, and repeats nothing whose settings changed', async () => {
    const adapter = place('checkpoints/step-000013/adapter');
    const bestAdapter = place('best/adapter');
    const em = {
      metric: 'rubric/em',
      lowerIsBetter: true,
      step: 12,
      version: 12,
      value: 0.25,
      adapter: bestAdapter,
    } as const;
    await writeModelCards(options({ adapter, best: em }));
    expect(cardIn(bestAdapter)).toContain('It is the adapter with the lowest held-out em (0.250), after step 12');
    const best = {
      metric: 'reward_mean',
      step: 12,
      version: 12,
      value: 0.9,
      adapter: bestAdapter,
    } as const;
    const history = new SettingHistory();
    const changes = [{ key: 'optimizer.learning_rate', before: 5e-4, after: 0.001 }];
    history.add({ kind: 'settings_changed', step: 12, message: '', changes });
    await writeModelCards(options({ adapter, best, history }));
    expect(cardIn(adapter)).toContain('30 steps of 8 × 8 rollouts, lr 5e-4 in steps 1-12, then 0.001.');
    expect(cardIn(adapter)).toContain('\n- optimizer.learning\\_rate 5e-4 in steps 1-12, then 0.001\n');
    expect(cardIn(adapter)).toContain('It does not repeat this training, whose settings changed.');
    expect(configIn(adapter)).toMatch(/^# The configuration of the last steps .*\n[^]*\nlearning_rate = 0\.001/);
    expect(cardIn(bestAdapter)).toContain('30 steps of 8 × 8 rollouts, lr 5e-4. It is the adapter with the highest held-out reward, after step 12');
    expect(cardIn(bestAdapter)).toContain('it repeats the training');
    expect(configIn(bestAdapter)).toMatch(/\nlearning_rate = 5e-4/);
  });

  it('says of each adapter whether it comes before or after the collapse of the policy, and which rollouts its reward leaves out', async () => {
    const adapter = place('checkpoints/step-000030/adapter');
    const bestAdapter = place('best/adapter');
    const best = { metric: 'reward_mean', step: 10, version: 10, value: 0.9, adapter: bestAdapter } as const;
    const rows = trainingRows().map((row) => {
      if (row.kind === 'step' && row.step === 20)
        return { ...row, values: { ...row.values, update_log_prob_before: -0.5, update_log_prob_after: -9 } };
      if (row.kind !== 'evaluation' || row.step !== 30) return row;
      return { ...row, values: { ...row.values, reward_mean: 0.25, rollouts: 4, rollouts_failed: 4, rollouts_unplayed: 4 } };
    });
    await writeModelCards(options({ adapter, best, rows }));
    const collapse = 'at step 20: the update of step 20, at the learning rate 0.001, lowered the mean log-prob of texts of that step from -0.5 to -9';
    expect(cardIn(adapter)).toContain(`\nThis adapter is from after a collapse of the policy, ${collapse}`);
    expect(cardIn(bestAdapter)).toContain(`\nThe policy of this run collapsed after this adapter was made, ${collapse}`);
    const left = 'mean of 4 of 8 rollouts; the others had no room to be played';
    expect(cardIn(adapter)).toContain(`\nIts held-out reward of 0.250 is the ${left}.\n`);
    expect(cardIn(adapter)).toContain(`name: "held-out reward (${left})"\n`);
    expect(cardIn(bestAdapter)).not.toContain('rollouts; the others');
  });

  it('writes nothing for a run without adapters, and no secret', async () => {
    await writeModelCards(options());
    expect(readdirSync(folder.path)).toEqual([]);
    const adapter = place('checkpoints/step-000030/adapter');
    await writeModelCards(options({ adapter, redact: (text) => text.replaceAll('fact-world', '***') }));
    expect(cardIn(adapter)).toContain('to play search-r1 on ***');
    expect(configIn(adapter)).toContain('dataset = "***"');
  });

  it('names an environment that was given by its path by the last part, and no folder of this machine', async () => {
    place('private');
    const questions = folder.write('private/questions.jsonl', '');
    const table = { environment: { id: folder.write('private/toy.ts', ''), args: { dataset: questions } }, steps: 30 };
    const { config, wire } = resolveTrainingConfig([presetLayer(presetNamed('laptop', null)), { source: '--set', table }]);
    const adapter = place('checkpoints/step-000030/adapter');
    await writeModelCards(options({ config, wire, adapter }));
    expect(cardIn(adapter)).toContain(' to play toy on questions.jsonl: ');
    expect(cardIn(adapter)).toContain('\n          name: toy\n          type: toy\n');
    expect(cardIn(adapter)).not.toContain('private');
  });

  it('names models, and no server of the user', async () => {
    const servers = { environment: { args: { retriever: 'http://10.1.2.3:8000/retrieve' } }, model: { path: 'Qwen/Qwen3-0.6B' } };
    const { config, wire } = resolveTrainingConfig([presetLayer(presetNamed('laptop', null)), { source: '--set', table: servers }]);
    const adapter = place('checkpoints/step-000030/adapter');
    await writeModelCards(options({ config, wire, adapter }));
    expect(cardIn(adapter) + configIn(adapter)).not.toContain('10.1.2.3');
    expect(cardIn(adapter)).toContain('[Qwen/Qwen3-0.6B](https://huggingface.co/Qwen/Qwen3-0.6B)');
    expect(configIn(adapter)).toMatch(/retriever = "URL"/);
  });

  it.each([
    ['all', 'All of them were trained on'],
    ['last', 'Of each rollout, only the branch with its last turn was trained on'],
  ] as const)('says how many branches an agent had, and which were trained on: %s', async (branches, text) => {
    const adapter = place('checkpoints/step-000020/adapter');
    const common = options({ adapter });
    const algorithm = { ...common.config.algorithm, branches };
    const steps = common.rows.filter(({ kind, step }) => kind === 'step' && step <= 20).length;
    await writeModelCards(common);
    expect(cardIn(adapter)).not.toContain('branches');
    const rows = common.rows.map((row) => (row.kind === 'step' && row.step > 1 ? { ...row, values: { ...row.values, branches_mean: 3 } } : row));
    await writeModelCards({ ...common, rows, config: { ...common.config, algorithm } });
    const mean = (1 + (steps - 1) * 3) / steps;
    expect(cardIn(adapter)).toContain(
      `The rollouts are those of an agent, with ${mean.toFixed(3)} branches on average. ${text} (algorithm.branches = "${branches}").`,
    );
  });
});
