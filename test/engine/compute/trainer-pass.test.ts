import { describe, expect, it } from 'vitest';
import { cacheBlockBytes } from '../../../src/engine/compute/dimensions.ts';
import { TrainerPass } from '../../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../../src/engine/compute/training-layout.ts';
import { forwardBytes, TransformerPass } from '../../../src/engine/compute/transformer-pass.ts';
import { TINY, Workbench } from './any-model.ts';
import { goldenModel, GOLDENS, gradientErrors, largestDifference, logProbTolerance, readGolden } from './golden.ts';
import { batchOf, someGradient, someTokens, TinyTrainer } from './tiny-trainer.ts';

/** Blocks of the cache, in no order; 13 are enough for the longest sequence. */
const BLOCKS = Int32Array.of(6, 1, 12, 4, 0, 10, 7, 2, 9, 5, 3, 11, 8);

describe.each(GOLDENS.flatMap((name) => [[name, 'relaxed'] as const, [name, 'plain'] as const]))(
  'TrainerPass against torch: %s model, %s kernels',
  async (name, build) => {
    const bench = new Workbench(build);
    const golden = readGolden(name);
    const model = await goldenModel(name, bench);
    const tolerance = logProbTolerance(golden);
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
      expect(largestDifference(logProbs, golden.base)).toBeLessThan(tolerance);
      expect(largestDifference(logProbs, golden.base_float32)).toBeLessThan(tolerance);
    });

    it('computes the log-probs that a sampler reports, bit for bit', () => {
      const { memory, kernels } = bench;
      const limits = { rows: 64, logitRows: 8 };
      const cache = { pointer: memory.allocate(BLOCKS.length * cacheBlockBytes(model.config)).pointer, blocks: BLOCKS.length };
      const region = memory.allocate(forwardBytes(model.config, limits, golden.rank));
      const sampler = new TransformerPass({ kernels, memory: memory.memory, model, cache, region, limits, maxRank: golden.rank });
      const sampled: number[] = [];
      for (const [i, start] of batch.offsets.subarray(0, -1).entries()) {
        const targets = batch.targets.filter((place) => place > start && place < batch.offsets[i + 1]!);
        // A prompt in pieces, then a token at a time.
        for (let past = start; past < targets.at(-1)!;) {
          const end = past + 1 < targets[0]! ? Math.min(past + 50, targets[0]!) : past + 1;
          const tokens = batch.ids.subarray(past, end);
          sampler.run([{ tokens, past: past - start, blocks: BLOCKS, adapter, logits: 'last' }], ({ pointer, stride }) => {
            if (!targets.includes(end)) return;
            kernels.logSoftmax(pointer, stride, 1, stride, model.config.vocabularySize, 1);
            sampled.push(bench.floats(pointer, stride)[batch.ids[end]!]!);
          });
          past = end;
        }
      }
      const { logProbs } = trainer(false).forward(batch, { adapter, retain: true, entropy: false });
      expect(sampled).toEqual([...logProbs]);
    });

    it('computes log-probs and entropies of an adapter, at any temperature', () => {
      const pass = trainer(false);
      const { logProbs, entropy } = pass.forward(batch, { adapter, retain: false, entropy: true });
      expect(largestDifference(logProbs, golden.adapter)).toBeLessThan(tolerance);
      expect(largestDifference(entropy!, golden.entropy)).toBeLessThan(tolerance);
      const warmed = pass.forward(hot, { adapter, retain: false, entropy: true });
      expect(largestDifference(warmed.logProbs, golden.hot.log_probs)).toBeLessThan(tolerance);
      expect(largestDifference(warmed.entropy!, golden.hot.entropy)).toBeLessThan(tolerance);
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
  },
);

describe('TrainerPass', () => {
  it('gives the same bits beyond 2 GiB of memory, where addresses misread as signed are negative', () => {
    const results = [0, 2.1 * 2 ** 30].map((hole) => {
      const trainer = new TinyTrainer({ config: TINY, rank: 4, scale: 1, tokens: 80, reservedBytes: hole });
      const adapter = trainer.bench.randomAdapter({ config: TINY, rank: 4, alpha: 4 });
      const batch = batchOf([someTokens('a', 40, 101), someTokens('b', 40, 101)]);
      return trainer.gradient(batch, adapter, { dLogProbs: someGradient('a', 78), dEntropy: someGradient('b', 78) });
    });
    expect(results[1]).toEqual(results[0]);
  });
});
