import { describe, expect, it } from 'vitest';
import { announcedLines } from '../../../src/reports/training/announce-run.ts';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { type ConfigLayer, resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';

const announced = (table: ConfigLayer['table'], directory: string | null = null) =>
  announcedLines(resolveTrainingConfig([presetLayer(presetNamed('laptop', null)), { source: '--set', table }]).config, directory);

describe('announcedLines', () => {
  it('name model, questions, size, engine and folder of a first run', () => {
    const [what, how, where] = announced({ steps: 7 }, `${process.cwd()}/outputs/train/x--1`);
    expect(what).toMatch(/^trains {5}nano-base to play search-r1 on fact-world: GRPO on a LoRA of rank 8, 7 steps of \d+ × \d+ rollouts, lr /);
    expect(how).toBe('with       the embedded engine, which samples and trains in this process: no server, no Python');
    expect(where).toBe('results in outputs/train/x--1');
  });

  it('begin with the name that the run was given', () => {
    expect(announced({ name: 'warm start' })[0]).toBe('name       warm start');
  });

  it.each([
    ['RLOO', { advantage: { baseline: 'leave_one_out', std: 'none' } }],
    ['REINFORCE++', { advantage: { scope: 'batch' } }],
    ['REINFORCE', { loss: { use: 'nll' } }],
    ['RPG', { loss: { use: 'rpg', args: { beta: 0.1 } } }],
    ['Dr. GRPO', { advantage: { std: 'none' } }],
    ['CISPO', { loss: { objective: 'cispo' } }],
    ['the loss my-loss.ts', { loss: { use: './modules/my-loss.ts' } }],
    ['a policy gradient with advantages by role and task', { advantage: { scope: 'role_task' } }],
  ])('say %s where the settings amount to that', (name, algorithm) => {
    expect(announced({ algorithm })[0]).toContain(`search-r1 on fact-world: ${name} on a LoRA of rank 8, `);
  });

  it('say what supervised steps learn from, before rollouts or alone', () => {
    const sft = { data: '/somewhere/good.jsonl', steps: 12, batch_size: 4, learning_rate: 0.002 };
    expect(announced({ steps: 0, sft })[0]).toBe(
      'trains     nano-base on the demonstrations of good.jsonl: a LoRA of rank 8, 12 supervised steps of up to 4 rows, lr 0.002',
    );
    expect(announced({ steps: 5, sft })[0]).toMatch(
      /nano-base to play .*: a LoRA of rank 8, 12 supervised steps of up to 4 rows, lr 0\.002 \(good\.jsonl\), then GRPO, 5 steps of \d+ × \d+ rollouts, lr 0\.001$/,
    );
    const unserved = { steps: 0, sft, policy: { embedded: null }, evaluation: { every: 0 }, backend: { kind: 'torch', python: 'py' } };
    expect(announced(unserved)[1]).toBe('with       PyTorch of py trains; without a policy server, nothing is played');
  });

  it('name the file of rollouts', () => {
    expect(announced({ rollouts_file: '/elsewhere/theirs.jsonl' })[0]).toMatch(/ \d+ steps of 8 groups of rollouts of theirs\.jsonl, lr /);
  });

  it('name the commands that show the curves that were asked for', () => {
    const directory = `${process.cwd()}/outputs/train/x--1`;
    expect(announced({ logging: { tensorboard: true, wandb: { project: 'p' } } }, directory).slice(3)).toEqual([
      'curves     tensorboard --logdir outputs/train/x--1/tensorboard',
      '           wandb sync outputs/train/x--1/wandb (wandb beta sync --live: during the run)',
    ]);
    expect(announced({}, directory)).toHaveLength(3);
  });

  it('say what samples and what trains when the two differ, without credentials', () => {
    expect(announced({ policy: { base_url: 'http://me:hunter22@h/v1' } })[1]).toBe('with       http://***@h/v1 samples; the embedded engine trains');
    expect(announced({ backend: { kind: 'torch', python: 'py' } })[1]).toContain('the embedded engine in this process samples; PyTorch of py trains');
    expect(announced({ policy: { launch: { python: 'py' } } })[1]).toContain('a vLLM server that this run starts with py samples');
  });
});
