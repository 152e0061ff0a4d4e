import { describe, expect, it } from 'vitest';
import { TrainerPass } from '../../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../../src/engine/compute/training-layout.ts';
import { Workbench } from './any-model.ts';
import { goldenModel, gradientErrors, largestDifference, readGolden } from './golden.ts';

describe.each([
  ['nano', 'relaxed'],
  ['nano', 'plain'],
  ['tiny', 'relaxed'],
  ['tiny', 'plain'],
] as const)('TrainerPass against torch: %s model, %s kernels', async (name, build) => {
  const bench = new Workbench(build);
  const golden = readGolden(name);
  const model = await goldenModel(name, bench);
  const adapter = bench.randomAdapter({ config: model.config, rank: golden.rank, alpha: golden.alpha });
  const batch = {
    ids: Int32Array.from(golden.ids),
    offsets: Int32Array.from(golden.offsets),
    targets: Int32Array.from(golden.targets),
    temperature: 1,
  };
  const hot = { ...batch, temperature: golden.temperature };
  const trainer = (checkpointing: boolean) => {
    const region = bench.memory.allocate(trainingBytes(model.config, { tokens: batch.ids.length, rank: golden.rank, checkpointing }));
    return new TrainerPass({ kernels: bench.kernels, memory: bench.memory.memory, model, region, checkpointing });
  };
  const scale = golden.alpha / golden.rank;

  it('computes the log-probs of the base', () => {
    const { logProbs } = trainer(false).forward(batch, { adapter: null, retain: false, entropy: false });
    expect(largestDifference(logProbs, golden.base)).toBeLessThan(2e-5);
    expect(largestDifference(logProbs, golden.base_float32)).toBeLessThan(2e-5);
  });

  it('computes log-probs and entropies of an adapter, at any temperature', () => {
    const pass = trainer(false);
    const { logProbs, entropy } = pass.forward(batch, { adapter, retain: false, entropy: true });
    expect(largestDifference(logProbs, golden.adapter)).toBeLessThan(2e-5);
    expect(largestDifference(entropy!, golden.entropy)).toBeLessThan(2e-5);
    const warmed = pass.forward(hot, { adapter, retain: false, entropy: true });
    expect(largestDifference(warmed.logProbs, golden.hot.log_probs)).toBeLessThan(3e-5);
    expect(largestDifference(warmed.entropy!, golden.hot.entropy)).toBeLessThan(2e-5);
  });

  it.each([false, true])('computes the gradients of an adapter, with checkpointing %s', (checkpointing) => {
    const pass = trainer(checkpointing);
    const gradient = bench.gradient({ config: model.config, rank: golden.rank });
    pass.forward(batch, { adapter, retain: true, entropy: false });
    pass.backward(gradient, { dLogProbs: Float32Array.from(golden.d_log_probs), dEntropy: null, scale });
    const { worst, all } = gradientErrors(bench, model, gradient, golden);
    expect(all).toBeLessThan(1e-4);
    expect(worst).toBeLessThan(3e-4);
  });

  it('computes the gradients of log-probs and entropies together', () => {
    const pass = trainer(false);
    const gradient = bench.gradient({ config: model.config, rank: golden.rank });
    pass.forward(hot, { adapter, retain: true, entropy: true });
    pass.backward(gradient, { dLogProbs: Float32Array.from(golden.d_log_probs), dEntropy: Float32Array.from(golden.hot.d_entropy), scale });
    const { worst, all } = gradientErrors(bench, model, gradient, golden.hot);
    expect(all).toBeLessThan(1e-4);
    expect(worst).toBeLessThan(3e-4);
  });
});
