import { describe, expect, it } from 'vitest';
import { announcedLines } from '../../../src/cli/train/announce-run.ts';
import { presetLayer, presetNamed } from '../../../src/trainer/config/presets.ts';
import { type ConfigLayer, resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';

const announced = (table: ConfigLayer['table'], directory: string | null = null) =>
  announcedLines(resolveTrainingConfig([presetLayer(presetNamed('laptop')), { source: '--set', table }]).config, directory);

describe('announcedLines', () => {
  it('name model, questions, size, engine and folder of a first run', () => {
    const [what, how, where] = announced({ steps: 7 }, `${process.cwd()}/outputs/train/x--1`);
    expect(what).toMatch(/^trains {5}nano-base to play search-r1 on fact-world: GRPO on a LoRA of rank 8, 7 steps of \d+ × \d+ rollouts, lr /);
    expect(how).toBe('with       the embedded engine, which samples and trains in this process: no server, no Python');
    expect(where).toBe('results in outputs/train/x--1');
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
