import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_MEMORY_BYTES } from '../../src/engine/compute/memory.ts';
import { EngineInputError } from '../../src/engine/engine-errors.ts';
import { defaultMaxModelLen, planThreadMemory } from '../../src/engine/memory-plan.ts';
import { modelBytes } from '../../src/engine/model/model-layout.ts';
import type { ModelConfig } from '../../src/engine/model/model-types.ts';
import { readModelConfig } from '../../src/engine/model/read-model-config.ts';
import { NANO } from './nano-requests.ts';

const nano = await readModelConfig(NANO);
const model = fc.record({
  vocabularySize: fc.integer({ min: 100, max: 160_000 }),
  hiddenSize: fc.integer({ min: 8, max: 160 }).map((x) => x * 8),
  intermediateSize: fc.integer({ min: 8, max: 400 }).map((x) => x * 8),
  layers: fc.integer({ min: 1, max: 32 }),
  kvHeads: fc.integer({ min: 1, max: 8 }),
  headDim: fc.constantFrom(32, 64, 128),
  maxPositions: fc.integer({ min: 16, max: 131_072 }),
});
const configOf = (sizes: Partial<ModelConfig>): ModelConfig => ({ ...nano, ...sizes, heads: 2 * (sizes.kvHeads ?? nano.kvHeads) });

describe('planThreadMemory', () => {
  it('gives every thread a cache for its longest sequence, scratch beside it, and leaves room for adapters', () => {
    fc.assert(
      fc.property(model, fc.integer({ min: 1, max: 16 }), (sizes, threads) => {
        const own = configOf(sizes);
        fc.pre(modelBytes(own) < 3 * 2 ** 30);
        const config = { ...own, maxPositions: defaultMaxModelLen(own, threads) };
        const plan = planThreadMemory(config, { threads, cacheTokens: undefined })!;
        expect(plan.cacheBlocks * 16).toBeGreaterThanOrEqual(config.maxPositions);
        const taken = threads * (plan.cacheBytes + plan.scratchBytes);
        const beside = MAX_MEMORY_BYTES - modelBytes(own);
        const hasRoom = config.maxPositions > 16;
        expect(!hasRoom || taken <= 0.8 * beside).toBe(true);
      }),
    );
  });

  it('keeps the length of a small model, and shortens that of one that leaves less room', () => {
    expect(defaultMaxModelLen(nano, 8)).toBe(2048);
    const small = configOf({
      vocabularySize: 151_936,
      hiddenSize: 1024,
      intermediateSize: 3072,
      layers: 28,
      kvHeads: 8,
      headDim: 128,
      maxPositions: 40_960,
    });
    const lengths = [1, 2, 8].map((threads) => defaultMaxModelLen(small, threads));
    expect(lengths[0]).toBeGreaterThan(4096);
    expect(lengths[2]).toBeGreaterThan(256);
    expect(lengths).toEqual(lengths.toSorted((a, b) => b - a));
  });

  it('divides 64 MiB of cache among the threads of a small model', () => {
    const tokens = [1, 2, 4].map((threads) => planThreadMemory(nano, { threads, cacheTokens: undefined })!.cacheBlocks * 16);
    expect(tokens).toEqual([32_768, 16_384, 8192]);
  });

  it('takes a size that was set, refuses one that is too small, and plans nothing for training alone', () => {
    expect(planThreadMemory(nano, { threads: 2, cacheTokens: 2048 })!.cacheBlocks).toBe(128);
    expect(() => planThreadMemory(nano, { threads: 2, cacheTokens: 2047 })).toThrow(EngineInputError);
    expect(() => planThreadMemory(nano, { threads: 2, cacheTokens: NaN })).toThrow(EngineInputError);
    expect(planThreadMemory(nano, { threads: 2, cacheTokens: 0 })).toBeNull();
  });
});
