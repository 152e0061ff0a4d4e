/** A model whose matrices stay bfloat16 computes to the bit what the same numbers give as float32: logits, sampled tokens, gradients. */
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { cacheBlockBytes } from '../../../src/engine/compute/dimensions.ts';
import type { Segment } from '../../../src/engine/compute/forward-types.ts';
import { TrainerPass } from '../../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../../src/engine/compute/training-layout.ts';
import { forwardBytes, TransformerPass } from '../../../src/engine/compute/transformer-pass.ts';
import { ADAPTED, type AdapterWeights, type ModelWeights, type WeightType } from '../../../src/engine/model/model-types.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';
import { type LoadedTwin, loadTwins, type TwinWish } from '../model/bfloat16-twins.ts';
import { randomTokens } from '../sampler/any-requests.ts';
import { bytesTable, requestOf, SamplerRun } from '../sampler/sampler-run.ts';
import { moduleSize } from './any-model.ts';
import { batchOf, someGradient, someTokens } from './tiny-trainer.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const LIMITS = { rows: 130, logitRows: 50 } as const;
const BLOCKS = 40;
const RANK = 5;
const SCALE = 2;

/** A prime vocabulary, and no two sizes the same. */
const UNTIED = { vocab_size: 211, hidden_size: 72, intermediate_size: 136, num_attention_heads: 3, num_key_value_heads: 1, head_dim: 40 };
const TIED = { vocab_size: 101, hidden_size: 40, intermediate_size: 88, tie_word_embeddings: true };
const isSome = (name: string) => /q_proj|v_proj|o_proj|gate_proj|up_proj|embed|norm/.test(name);

type Kept = readonly [embedding: WeightType, head: WeightType, qkv: WeightType, output: WeightType, gateUp: WeightType, down: WeightType];
const ALL: Kept = ['bfloat16', 'bfloat16', 'bfloat16', 'bfloat16', 'bfloat16', 'bfloat16'];
const SOME: Kept = ['bfloat16', 'float32', 'float32', 'bfloat16', 'bfloat16', 'float32'];
const MODELS: readonly (readonly [string, TwinWish, Kept])[] = [
  ['a tied head', { config: TIED, dtypeOf: () => 'BF16', shards: 1 }, ALL],
  ['a head of its own, in three files', { config: UNTIED, dtypeOf: () => 'BF16', shards: 3 }, ALL],
  [
    'matrices of three types',
    { config: UNTIED, dtypeOf: (name) => (isSome(name) ? 'BF16' : name.includes('down') ? 'F16' : 'F32'), shards: 2 },
    SOME,
  ],
];

/** Equality to the bit. A yes or no, because printing how so many numbers differ takes minutes. */
const isSame = (got: readonly Float32Array[], wanted: readonly Float32Array[]): boolean =>
  got.length === wanted.length && got.every((each, i) => Buffer.compare(bytesOf(each), bytesOf(wanted[i]!)) === 0);
const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array => new Uint8Array(buffer, byteOffset, byteLength);

function keptTypes({ embedding, head, layers }: ModelWeights): readonly WeightType[][] {
  return layers.map(({ qkv, output, gateUp, down }) => [embedding, head, qkv, output, gateUp, down].map(({ type }) => type));
}

/** One twin with all that computes over it. */
class Engine {
  readonly adapters: readonly (AdapterWeights | null)[];
  readonly #twin: LoadedTwin;
  readonly #pass: TransformerPass;
  readonly #trainers: readonly TrainerPass[];

  constructor(twin: LoadedTwin) {
    this.#twin = twin;
    const { bench, model } = twin;
    const { memory, kernels } = bench;
    const { config } = model;
    this.adapters = [null, bench.randomAdapter({ config, rank: RANK, alpha: 16 })];
    const parts = { kernels, memory: memory.memory, model };
    const cache = { pointer: memory.allocate(BLOCKS * cacheBlockBytes(config)).pointer, blocks: BLOCKS };
    this.#pass = new TransformerPass({ ...parts, cache, region: memory.allocate(forwardBytes(config, LIMITS, RANK)), limits: LIMITS, maxRank: RANK });
    this.#trainers = [false, true].map((checkpointing) => {
      const region = memory.allocate(trainingBytes(config, { tokens: 400, rank: RANK, checkpointing }));
      return new TrainerPass({ ...parts, region, checkpointing });
    });
  }

  /** All logits of one pass over sequences of these lengths, after `past` tokens that were computed before. */
  logits(lengths: readonly number[], past: number, adapter: number): readonly Float32Array[] {
    const { bench, model } = this.#twin;
    const { vocabularySize } = model.config;
    const all: Float32Array[] = [];
    for (const [from, to, logits] of [
      [0, past, 'none'],
      [past, Infinity, 'all'],
    ] as const) {
      if (to === 0) continue;
      const segments = lengths.map((length, i): Segment => {
        const ids = Int32Array.from(someTokens(`sequence ${i}`, past + length, vocabularySize));
        const blocks = Int32Array.from({ length: 8 }, (_, block) => (i * 8 + block) % BLOCKS);
        return { tokens: ids.subarray(from, to), past: from, blocks, adapter: this.adapters[(adapter + i) % 2]!, logits };
      });
      this.#pass.run(segments, ({ pointer, stride, count }) => {
        for (let row = 0; row < count; row++) all.push(bench.floats(pointer + row * stride * 4, vocabularySize).slice());
      });
    }
    return all;
  }

  /** Eleven generations, by id. */
  sampled(): readonly unknown[] {
    const { bench, model } = this.#twin;
    const { vocabularySize } = model.config;
    const words = Array.from({ length: vocabularySize }, (_, id) => (id % 7 === 0 ? 'ab' : 'a>'));
    const run = new SamplerRun({
      pass: this.#pass,
      blocks: BLOCKS,
      kernels: bench.kernels,
      memory: bench.memory.memory,
      model: { vocabularySize, endTokenIds: [0] },
      tokenBytes: bytesTable(words, [0]),
      maxModelLen: 64,
      seed: 1,
    });
    for (let id = 0; id < 11; id++) {
      const sampling = { temperature: id % 4 === 3 ? 0 : 0.5 + id / 10, topP: id % 3 === 1 ? 0.9 : 1, topK: id % 5 === 2 ? 7 : -1, seed: id };
      const prompt = randomTokens(id, 1 + ((id * 7) % 23), vocabularySize);
      run.add(requestOf({ id, prompt, adapter: this.adapters[id % 2]!, maxTokens: 29, sampling, logProbs: 3, promptLogProbs: 1 }));
    }
    run.finish();
    return [...run.generations].toSorted(([a], [b]) => a - b);
  }

  /** Log-probs, entropies and the gradient of every tensor of the adapter. */
  trained(sequences: readonly (readonly number[])[], checkpointing: boolean, temperature: number): readonly Float32Array[] {
    const { bench, model } = this.#twin;
    const { config } = model;
    const gradient = bench.gradient({ config, rank: RANK });
    const batch = batchOf(sequences, { temperature });
    const count = batch.targets.length;
    const pass = this.#trainers[checkpointing ? 1 : 0]!;
    const { logProbs, entropy } = pass.forward(batch, { adapter: this.adapters[1]!, retain: true, entropy: true });
    pass.backward(gradient, { dLogProbs: someGradient('log-probs', count), dEntropy: someGradient('entropy', count), scale: SCALE });
    const tensors = gradient.layers.flatMap((modules) =>
      ADAPTED.flatMap((module) => {
        const { inputs, outputs } = moduleSize(config, module);
        return [bench.floats(modules[module]!.a, RANK * inputs), bench.floats(modules[module]!.b, RANK * outputs)];
      }),
    );
    return [logProbs, entropy!, ...tensors];
  }
}

describe.each(MODELS)('bfloat16 weights: a model with %s', (name, wish, kept) => {
  describe.each(['relaxed', 'plain'] as const)('%s kernels', async (build) => {
    const twins = await loadTwins(join(folder.path, name, build), build, wish);
    const [bfloat16, float32] = [new Engine(twins.bfloat16), new Engine(twins.float32)];

    it('keeps what is bfloat16, and only that', () => {
      expect(keptTypes(twins.bfloat16.model)).toEqual([kept, kept]);
      expect(new Set(keptTypes(twins.float32.model).flat())).toEqual(new Set(['float32']));
    });

    it('gives the logits of float32 to the bit, for any rows and after any cache', () => {
      // Around tiles, strips and pieces; together at most 130 rows.
      const length = fc.oneof(fc.constantFrom(1, 2, 3, 5, 6, 7, 13, 17), fc.integer({ min: 1, max: 26 }));
      const lengths = fc.oneof(fc.array(length, { minLength: 1, maxLength: 5 }), fc.constantFrom([47], [48], [49], [53], [1, 47, 49]));
      fc.assert(
        fc.property(lengths, fc.constantFrom(0, 1, 11), fc.constantFrom(0, 1), (rows, past, adapter) => {
          const wanted = float32.logits(rows, past, adapter);
          expect(wanted).toHaveLength(rows.reduce((sum, row) => sum + row, 0));
          expect(isSame(bfloat16.logits(rows, past, adapter), wanted)).toBe(true);
        }),
        { numRuns: 25 },
      );
    });

    it('samples the tokens of float32 with the same log-probs, base and adapter', () => {
      const wanted = float32.sampled();
      expect(wanted).toHaveLength(11);
      expect(bfloat16.sampled()).toEqual(wanted);
    });

    it.each([
      [[[19, 23, 29, 31]], false, 1],
      [[[2], [3, 53], [59, 41]], false, 0.7],
      [[[37, 61]], true, 1],
    ] as const)(
      'gives log-probs, entropies and gradients of float32 to the bit: sequences of %j, checkpointing %s, temperature %s',
      (groups, checkpointing, temperature) => {
        const { vocabularySize } = twins.float32.model.config;
        const sequences = groups.flatMap((group, g) => group.map((length, i) => someTokens(`${g} ${i}`, length, vocabularySize)));
        const wanted = float32.trained(sequences, checkpointing, temperature);
        expect(wanted.every((tensor) => tensor.some((value) => value !== 0))).toBe(true);
        expect(isSame(bfloat16.trained(sequences, checkpointing, temperature), wanted)).toBe(true);
      },
    );
  });
});
