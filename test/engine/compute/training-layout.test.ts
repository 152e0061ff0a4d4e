import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TrainerPass } from '../../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../../src/engine/compute/training-layout.ts';
import { MemoryLimitError } from '../../../src/engine/engine-errors.ts';
import type { ModelConfig } from '../../../src/engine/model/model-types.ts';
import { TINY, Workbench } from './any-model.ts';
import { batchOf, someGradient, someTokens } from './tiny-trainer.ts';

const QWEN3_600M: ModelConfig = {
  vocabularySize: 151_936,
  hiddenSize: 1024,
  intermediateSize: 3072,
  layers: 28,
  heads: 16,
  kvHeads: 8,
  headDim: 128,
  maxPositions: 40_960,
  rmsNormEpsilon: 1e-6,
  ropeTheta: 1_000_000,
  tiedEmbeddings: true,
  endTokenIds: [],
  path: 'Qwen3-0.6B',
};
/** Blocks of the cache are most of what it needs, so that short sequences, which fill no block, are the dearest. */
const CACHE_HEAVY: ModelConfig = { ...TINY, hiddenSize: 8, intermediateSize: 8, heads: 2, kvHeads: 2, headDim: 64 };
const TOKENS = 150;

describe.each([
  ['tiny', TINY, false],
  ['tiny', TINY, true],
  ['cache-heavy', CACHE_HEAVY, false],
  ['cache-heavy', CACHE_HEAVY, true],
] as const)('trainingBytes of a %s model', (_, config, checkpointing) => {
  const bench = new Workbench();
  const { kernels, memory } = bench;
  const model = bench.randomModel(config);
  const adapter = bench.randomAdapter({ config: config, rank: 4, alpha: 4 });
  const gradient = bench.gradient({ config: config, rank: 4 });
  const guard = () => bench.floats(memory.allocate(4096).pointer, 1024).fill(7);
  const before = guard();
  const region = memory.allocate(trainingBytes(config, { tokens: TOKENS, rank: 4, checkpointing }));
  const after = guard();
  const pass = new TrainerPass({ kernels, memory: memory.memory, model, region, checkpointing });

  it(`is enough for any batch of that many tokens, which touches nothing beyond, checkpointing ${checkpointing}`, () => {
    const lengths = fc.array(fc.oneof(fc.constant(2), fc.integer({ min: 1, max: 60 })), { minLength: 1, maxLength: 80 }).map((all) => {
      let room = TOKENS;
      return all.filter((length) => length <= room && (room -= length) >= 0);
    });
    const short = batchOf(Array.from({ length: TOKENS / 2 }, (_each, i) => someTokens(`short ${i}`, 2, config.vocabularySize)));
    pass.forward(short, { adapter, retain: true, entropy: true });
    fc.assert(
      fc.property(lengths, fc.boolean(), fc.integer({ min: 1, max: 40 }), (chosen, areAlike, firstTarget) => {
        const batch = batchOf(
          chosen.map((length, i) => someTokens(areAlike ? 'same' : `sequence ${i}`, length, config.vocabularySize)),
          { firstTarget },
        );
        const count = batch.targets.length;
        pass.forward(batch, { adapter, retain: true, entropy: true });
        pass.backward(gradient, { dLogProbs: someGradient('a', count), dEntropy: someGradient('b', count), scale: 1 });
        expect(before.every((value) => value === 7) && after.every((value) => value === 7)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('is needed: a batch that does not fit is refused before anything is touched', () => {
    const small = batchOf([someTokens('small', 20, 50)]);
    const large = batchOf(Array.from({ length: 30 }, (_each, i) => someTokens(`large ${i}`, 60, 50)));
    const { logProbs } = pass.forward(small, { adapter, retain: true, entropy: false });
    expect(() => pass.forward(large, { adapter, retain: true, entropy: false })).toThrow(MemoryLimitError);
    expect(() => pass.backward(gradient, { dLogProbs: someGradient('a', logProbs.length), dEntropy: null, scale: 1 })).not.toThrow();
  });
});

describe('trainingBytes of Qwen3-0.6B', () => {
  const bytes = (options: { tokens: number; maxTargets?: number; checkpointing: boolean }) =>
    trainingBytes(QWEN3_600M, { rank: 16, sequences: 16, ...options });

  it('has no room for the logits of all targets', () => {
    const ofTargets = bytes({ tokens: 2048, checkpointing: true }) - bytes({ tokens: 2048, maxTargets: 64, checkpointing: true });
    expect(ofTargets).toBeLessThan(0.3 * (2048 - 64) * QWEN3_600M.vocabularySize * 4);
  });

  it('is a seventh with checkpointing, when tokens are many', () => {
    expect(bytes({ tokens: 4096, maxTargets: 64, checkpointing: true })).toBeLessThan(
      bytes({ tokens: 4096, maxTargets: 64, checkpointing: false }) / 7,
    );
  });
});
