import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_MEMORY_BYTES } from '../../src/engine/compute/memory.ts';
import { EngineInputError } from '../../src/engine/engine-errors.ts';
import { defaultMaxModelLen, planThreadMemory } from '../../src/engine/memory-plan.ts';
import { ALL_BFLOAT16, ALL_FLOAT32, modelBytes, type WeightTypes } from '../../src/engine/model/model-layout.ts';
import type { ModelConfig } from '../../src/engine/model/model-types.ts';
import { NANO } from './nano-requests.ts';
import { readModelConfig } from './from-directory.ts';

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

const QWEN3_06B = configOf({
  vocabularySize: 151_936,
  hiddenSize: 1024,
  intermediateSize: 3072,
  layers: 28,
  kvHeads: 8,
  headDim: 128,
  maxPositions: 40_960,
});
const QWEN3_17B: ModelConfig = { ...QWEN3_06B, hiddenSize: 2048, intermediateSize: 6144 };
const lengthOf = (config: ModelConfig, types: WeightTypes, threads: number): number =>
  defaultMaxModelLen(config, { modelBytes: modelBytes(config, types), threads });

describe('planThreadMemory', () => {
  it('gives every thread a cache for its longest sequence, scratch next to it, and leaves room for adapters', () => {
    fc.assert(
      fc.property(model, fc.integer({ min: 1, max: 16 }), (sizes, threads) => {
        const own = configOf(sizes);
        const bytes = modelBytes(own, ALL_FLOAT32);
        fc.pre(bytes < 3 * 2 ** 30);
        const config = { ...own, maxPositions: defaultMaxModelLen(own, { modelBytes: bytes, threads }) };
        const plan = planThreadMemory(config, { threads, cacheTokens: undefined })!;
        expect(plan.cacheBlocks * 16).toBeGreaterThanOrEqual(config.maxPositions);
        const taken = threads * (plan.cacheBytes + plan.scratchBytes);
        const beside = MAX_MEMORY_BYTES - bytes;
        const hasRoom = config.maxPositions > 16;
        expect(!hasRoom || taken <= 0.8 * beside).toBe(true);
      }),
    );
  });

  it('keeps the length of a small model, and shortens that of one that leaves less room', () => {
    expect(lengthOf(nano, ALL_FLOAT32, 8)).toBe(2048);
    const lengths = [1, 2, 8].map((threads) => lengthOf(QWEN3_06B, ALL_FLOAT32, threads));
    expect(lengths[0]).toBeGreaterThan(4096);
    expect(lengths[2]).toBeGreaterThan(256);
    expect(lengths).toEqual(lengths.toSorted((a, b) => b - a));
  });

  it('gives what bfloat16 saves to longer sequences, and leaves a useful length next to Qwen3-1.7B', () => {
    expect(lengthOf(QWEN3_06B, ALL_BFLOAT16, 2)).toBeGreaterThan(1.5 * lengthOf(QWEN3_06B, ALL_FLOAT32, 2));
    expect(modelBytes(QWEN3_17B, ALL_BFLOAT16)).toBeLessThan(3.3 * 2 ** 30);
    expect([1, 2].map((threads) => lengthOf(QWEN3_17B, ALL_BFLOAT16, threads) > 1000)).toEqual([true, true]);
  });

  it('divides 64 MiB of cache among the threads of a small model', () => {
    const tokens = [1, 2, 4].map((threads) => planThreadMemory(nano, { threads, cacheTokens: undefined })!.cacheBlocks * 16);
    expect(tokens).toEqual([32_768, 16_384, 8192]);
  });

  it('accepts a size that was set, refuses one that is too small, and plans nothing for training alone', () => {
    expect(planThreadMemory(nano, { threads: 2, cacheTokens: 2048 })!.cacheBlocks).toBe(128);
    expect(() => planThreadMemory(nano, { threads: 2, cacheTokens: 2047 })).toThrow(EngineInputError);
    expect(() => planThreadMemory(nano, { threads: 2, cacheTokens: NaN })).toThrow(EngineInputError);
    expect(planThreadMemory(nano, { threads: 2, cacheTokens: 0 })).toBeNull();
  });
});
