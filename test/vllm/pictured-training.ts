/** Training on pictures through a real vLLM: publishes, and runs of `vf-train`. Called by images.test.ts, whose server it shares. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { picturedPublisherContract } from '../contracts/pictured-publisher.ts';
import { picturedPrompt, vlmAdapter } from '../images/published-vlm.ts';
import { rulesOf, type VlmForm } from '../images/vlm-client.ts';
import { PYTHON, finished, TrainFolder } from './train-process.ts';
import type { VisionModel } from './vision-models.ts';

const GALLERY = join(import.meta.dirname, '../images/gallery.ts');

export function picturedTraining(form: VlmForm, serve: (form: VlmForm) => Promise<VisionModel>): void {
  picturedPublisherContract(
    `real vLLM of the form ${form}`,
    async () => {
      const { url } = await serve(form);
      return { url, baseModel: form, ...(await picturedPrompt(form)), adapter: vlmAdapter(form), [Symbol.asyncDispose]: async () => {} };
    },
    { ignoresTextNames: form === 'qwen3_vl' },
  );

  describe(`vf-train on pictures through a real vLLM of the form ${form}`, () => {
    it('publishes what it trained: the server’s log-probs through the adapter are the trainer’s', { timeout: 600_000 }, async () => {
      const { url, folder: model } = await serve(form);
      const { unit } = rulesOf(form);
      using folder = new TrainFolder();
      const settings = {
        steps: 2,
        'backend.kind': 'torch',
        'backend.threads': 1,
        'rollouts.examples_per_step': 2,
        'rollouts.rollouts_per_example': 4,
        'rollouts.max_tokens': 16,
        'evaluation.every': 0,
        'optimizer.learning_rate': 0.01,
        'guards.max_log_prob_difference': 1e-4,
        'guards.on_alarm': 'stop',
      };
      const sizes = [
        [4, 3],
        [2, 6],
        [3, 3],
      ].map(([columns, rows]) => [columns! * unit, rows! * unit]);
      const sets = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${String(value)}`]);
      const words = [GALLERY, '-a', JSON.stringify({ sizes }), '-m', model, '-b', url, '--python', PYTHON, '-o', '.'];
      const printed = await finished<{ reason: string; version: number; directory: string }>(folder.start([...words, ...sets]));
      expect(printed).toMatchObject({ reason: 'finished', version: 2 });
      const run = folder.run()!;
      const rows = run.rows('step');
      expect(rows.map(({ policy_version: version }) => version)).toEqual([1, 2]);
      for (const row of rows) {
        expect(row['grad_norm']).toBeGreaterThan(0);
        expect(row['log_prob_difference_max']).toBeLessThan(1e-4);
        expect(row['probe_difference_max']).toBeLessThan(1e-4);
      }
      // At least three pictures for each of two rows.
      expect(run.names('images').length).toBeGreaterThanOrEqual(6);
      const weights = readFileSync(join(run.path, 'checkpoints/step-000002/adapter/adapter_model.safetensors'), 'latin1');
      expect(weights).toContain('base_model.model.model.language_model.layers.1.mlp.down_proj.lora_B.weight');
      expect(weights).not.toContain('visual');
    });
  });
}
