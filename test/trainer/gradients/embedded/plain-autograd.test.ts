import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { distance, type GradientCase, largestDifference, smallBatch, someGradient } from '../../../contracts/gradient-cases.ts';
import { plainAutograd, skipReason, torchPython } from '../torch/torch-python.ts';
import { NANO_BASE, writeRandomAdapter } from './nano-adapter.ts';
import { differentiate, plainReferences } from './plain-autograd.ts';
import { PlainQwen3, readPlainAdapter } from './plain-qwen3.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-plain-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const adapter = writeRandomAdapter({ directory: join(root, 'adapter'), rank: 2, alpha: 6, seed: 5 });
const batch = smallBatch(1600, 1.3);
const [dLogProbs, dEntropy] = [someGradient(batch.targets.length), someGradient(batch.targets.length, 2)];

describe('plainReferences', { timeout: 120_000 }, () => {
  it('agrees with finite differences in one number of every kind of matrix', { tags: 'long' }, () => {
    const model = new PlainQwen3(NANO_BASE);
    const leaves = readPlainAdapter(adapter);
    const loss = () => {
      const { logProbs, entropy } = differentiate(model, leaves, { batch });
      return logProbs.reduce((sum, x, i) => sum + x * dLogProbs[i]! + entropy[i]! * dEntropy[i]!, 0);
    };
    differentiate(model, leaves, { batch, dLogProbs, dEntropy });
    const size = 1e-4;
    for (const [name, { data, gradient }] of [...leaves.leaves].slice(14, 28)) {
      const at = gradient!.reduce((best, g, i) => (Math.abs(g) > Math.abs(gradient![best]!) ? i : best), 0);
      const own = data[at]!;
      data[at] = own + size;
      const above = loss();
      data[at] = own - size;
      const below = loss();
      data[at] = own;
      expect({ name, ratio: (above - below) / (2 * size * gradient![at]!) }).toEqual({ name, ratio: expect.closeTo(1, 4) });
    }
  });

  it.skipIf(torchPython.path === null)(`finds what torch's autograd finds, up to the float32 of its norms${skipReason}`, async () => {
    const adam = { steps: 3, learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-3, weightDecay: 0.1, maxGradNorm: 0.5 };
    const cases: GradientCase[] = [
      { adapter: null, batch },
      { adapter, batch, dLogProbs, dEntropy },
      { adapter, batch, dLogProbs, adam },
    ];
    const theirs = await plainAutograd(cases);
    for (const [i, own] of plainReferences(NANO_BASE, cases).entries()) {
      const { log_probs, entropy, gradient = {}, parameters = {}, norms = [] } = theirs[i]!;
      expect(Object.keys(own)).toEqual(Object.keys(theirs[i]!));
      expect(largestDifference(own.log_probs, log_probs)).toBeLessThan(1e-5);
      expect(largestDifference(own.entropy, entropy)).toBeLessThan(1e-5);
      expect(distance(own.gradient ?? {}, gradient) || 0).toBeLessThan(1e-5);
      expect(distance(own.parameters ?? {}, parameters) || 0).toBeLessThan(1e-6);
      expect(largestDifference(own.norms ?? [], norms)).toBeLessThan(1e-4);
    }
  });
});
