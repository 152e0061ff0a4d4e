/** The second half of the gradient backend's contract: steps of Adam, and what is written to disk. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { baseName } from '../../src/engine/adapters/base-name.ts';
import type { AdapterFiles } from '../../src/trainer/gradient-backend.ts';
import { largestDifference, readAdapter, someGradient } from './gradient-cases.ts';
import { ADAM, type GradientSubject, refusal } from './gradient-subject.ts';

export function gradientStepsContract(subject: GradientSubject): void {
  describe('optimStep', () => {
    it('steps as AdamW with clipping does', async () => {
      const at = subject.references.findIndex(({ parameters }) => parameters !== undefined);
      const { batch: of, dLogProbs } = subject.cases[at]!;
      const { norms, parameters } = subject.references[at]!;
      for (const [i, norm] of norms!.entries()) {
        await subject.accumulate(of, dLogProbs!);
        const result = await subject.backend.optimStep(ADAM);
        expect(result).toMatchObject({ step: i + 1, skipped: false });
        expect(result.gradNorm / norm).toBeCloseTo(1, 5);
      }
      const found = readAdapter((await subject.backend.saveAdapter(subject.folder())).directory);
      expect(Object.keys(found).toSorted()).toEqual(Object.keys(parameters!).toSorted());
      for (const [key, values] of Object.entries(parameters!)) expect(largestDifference(found[key]!, values)).toBeLessThan(2e-6);
    });

    it('skips a gradient that is not finite: nothing changes, and the gradient is gone', async () => {
      const before = await subject.logProbs(subject.batch);
      await subject.accumulate(subject.batch, new Float32Array(subject.batch.targets.length).fill(3e38));
      const skipped = await subject.backend.optimStep(ADAM);
      expect(skipped).toMatchObject({ step: 0, skipped: true });
      expect(Number.isFinite(skipped.gradNorm)).toBe(false);
      expect(await subject.logProbs(subject.batch)).toEqual(before);
      await subject.accumulate(subject.batch, someGradient(subject.batch.targets.length));
      expect(await subject.backend.optimStep(ADAM)).toMatchObject({ step: 1, skipped: false });
    });

    it('refuses a step without a gradient, after zeroGrad too, and options out of range', async () => {
      expect(await refusal(subject.backend.optimStep(ADAM))).toBe('bad_input');
      await subject.accumulate(subject.batch, someGradient(subject.batch.targets.length));
      expect(await refusal(subject.backend.optimStep({ ...ADAM, learningRate: NaN }))).toBe('bad_input');
      expect(await refusal(subject.backend.optimStep({ ...ADAM, beta2: 1 }))).toBe('bad_input');
      await subject.backend.zeroGrad();
      expect(await refusal(subject.backend.optimStep(ADAM))).toBe('bad_input');
    });
  });

  describe('hold, restore and isFinite', () => {
    const step = async (learningRate = ADAM.learningRate) => {
      await subject.accumulate(subject.batch, someGradient(subject.batch.targets.length));
      return subject.backend.optimStep({ ...ADAM, learningRate });
    };

    it('return bit for bit to weights, moments and count of steps, also from weights that no forward pass survives', async () => {
      const { backend, batch } = subject;
      await step();
      await backend.hold();
      await step();
      const expected = await subject.logProbs(batch);
      await step(1e30);
      expect(await refusal(subject.logProbs(batch))).toBe('not_finite');
      await backend.restore();
      expect(await backend.isFinite()).toBe(true);
      expect((await step()).step).toBe(2);
      expect(await subject.logProbs(batch)).toEqual(expected);
      expect(await refusal(backend.restore())).toBe('bad_input');
    });

    it('tell by how much a step changed the weight that it changed most: by about its rate', async () => {
      const { backend } = subject;
      expect(await refusal(backend.movement())).toBe('bad_input');
      await backend.hold();
      expect((await step(1e-300)).gradNorm).toBeGreaterThan(0);
      expect(await backend.movement()).toBe(0);
      await step(0.01);
      const moved = (await backend.movement())!;
      expect(moved > 0.001 && moved < 0.1).toBe(true);
      await backend.restore();
      await backend.hold();
      expect(await backend.movement()).toBe(0);
    });

    it('find a moment that overflowed although the weights are finite, unless the gradient was refused; such a state is not loaded', async () => {
      const { backend, batch } = subject;
      await subject.accumulate(batch, someGradient(batch.targets.length).fill(1e25));
      const { skipped } = await backend.optimStep({ ...ADAM, maxGradNorm: null, weightDecay: 0 });
      expect(await backend.isFinite()).toBe(skipped);
      if (skipped) return;
      const saved = subject.folder();
      await backend.saveState(saved);
      expect(await refusal(backend.loadState(saved))).toBe('not_finite');
    });
  });

  describe('saveAdapter, saveState and loadState', () => {
    it('writes what it lists, in shapes of the modules it describes', async () => {
      const manifest = (await subject.backend.saveAdapter(subject.folder())) as AdapterFiles;
      expect(readdirSync(manifest.directory).toSorted()).toEqual(manifest.files.map((file) => file.name).toSorted());
      for (const { name: file, bytes, sha256 } of manifest.files) {
        const content = readFileSync(join(manifest.directory, file));
        expect([content.length, createHash('sha256').update(content).digest('hex')]).toEqual([bytes, sha256]);
      }
      const { rank, alpha, modules, baseModel } = subject.backend.adapter;
      const sizes = modules.flatMap(({ path, inFeatures, outFeatures }) => [
        [`base_model.model.${path}.lora_A.weight`, rank * inFeatures],
        [`base_model.model.${path}.lora_B.weight`, rank * outFeatures],
      ]);
      const tensors = readAdapter(manifest.directory);
      expect(Object.fromEntries(Object.entries(tensors).map(([key, values]) => [key, values.length]))).toEqual(Object.fromEntries(sizes));
      const config = JSON.parse(readFileSync(join(manifest.directory, 'adapter_config.json'), 'utf8')) as object;
      const targets = [...new Set(modules.map(({ path }) => path.split('.').at(-1)!))].toSorted();
      const expected = {
        peft_type: 'LORA',
        r: rank,
        lora_alpha: alpha,
        bias: 'none',
        target_modules: targets,
        base_model_name_or_path: baseName(baseModel),
      };
      expect(config).toMatchObject(expected);
    });

    it('starts from a saved adapter with the same log-probs to the bit', async () => {
      expect(await subject.logProbs(subject.batch)).toEqual(subject.startLogProbs);
    });

    it('continues from a loaded state bit for bit', async () => {
      const train = async (phases: readonly number[]) => {
        for (const phase of phases) {
          await subject.accumulate(subject.batch, someGradient(subject.batch.targets.length, phase));
          await subject.backend.optimStep(ADAM);
        }
      };
      await train([0, 1]);
      const state = subject.folder();
      await subject.backend.saveState(state);
      await train([2, 3]);
      const straight = readAdapter((await subject.backend.saveAdapter(subject.folder())).directory);
      await subject.backend.loadState(state);
      await train([2, 3]);
      expect(readAdapter((await subject.backend.saveAdapter(subject.folder())).directory)).toEqual(straight);
    });

    it('forgets the accumulated gradient on loadState', async () => {
      await subject.accumulate(subject.batch, someGradient(subject.batch.targets.length));
      await subject.backend.loadState(subject.startState);
      expect(await refusal(subject.backend.optimStep(ADAM))).toBe('bad_input');
    });

    it('refuses a directory that exists, and one that is not a state, changing nothing', async () => {
      const there = subject.folder();
      mkdirSync(there);
      const before = await subject.logProbs(subject.batch);
      expect(await refusal(subject.backend.saveAdapter(there))).toBe('bad_input');
      expect(await refusal(subject.backend.saveState(there))).toBe('bad_input');
      expect(readdirSync(there)).toEqual([]);
      expect(await refusal(subject.backend.loadState(there))).toBe('bad_input');
      expect(await refusal(subject.backend.loadState(subject.startAdapter))).toBe('bad_input');
      expect(await refusal(subject.backend.loadState(subject.folder()))).toBe('bad_input');
      expect(await subject.logProbs(subject.batch)).toEqual(before);
    });
  });
}
