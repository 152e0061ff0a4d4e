/** The claims of the sampler over real models: what a table of blocks and a schedule do to their numbers is nothing. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cacheBlockBytes } from '../../../src/engine/compute/dimensions.ts';
import type { ForwardLimits } from '../../../src/engine/compute/forward-types.ts';
import { TrainerPass } from '../../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../../src/engine/compute/training-layout.ts';
import { forwardBytes, TransformerPass } from '../../../src/engine/compute/transformer-pass.ts';
import type { Generation } from '../../../src/engine/engine-types.ts';
import type { AdapterWeights, ModelWeights } from '../../../src/engine/model/model-types.ts';
import { openTokenizer } from '../../../src/tokenizer/open-tokenizer.ts';
import type { TokenBytes } from '../../../src/tokenizer/tokenizer-types.ts';
import { Workbench } from '../compute/any-model.ts';
import { goldenModel } from '../compute/golden.ts';
import { NANO } from '../nano-requests.ts';
import { anyMoves, play, randomTokens } from './any-requests.ts';
import { bytesTable, requestOf, SamplerRun } from './sampler-run.ts';

const LONGEST = 128;
const RANK = 8;

interface Room {
  readonly blocks: number;
  readonly limits: ForwardLimits;
}

const AMPLE: Room = { blocks: 100, limits: { rows: 64, logitRows: 16 } };
const anyRoom: fc.Arbitrary<Room> = fc.record({
  blocks: fc.constantFrom(8, 8, 9, 12, 100),
  limits: fc.record({ rows: fc.integer({ min: 1, max: 64 }), logitRows: fc.integer({ min: 1, max: 16 }) }),
});

/** Text for a vocabulary that has none: stop strings come about across tokens. */
const anyBytes = (count: number): TokenBytes =>
  bytesTable(
    Array.from({ length: count }, (_, id) => (id % 7 === 0 ? 'ab' : id % 5 === 0 ? '</' : 'a>')),
    [0],
  );

/** Samplers over one model, in one region of memory: each finds what the one before has left there. */
function samplersOf(bench: Workbench, model: ModelWeights, bytes?: TokenBytes): (room: Room) => SamplerRun {
  const { memory, kernels } = bench;
  const { config } = model;
  const cache = memory.allocate(100 * cacheBlockBytes(config)).pointer;
  const region = memory.allocate(forwardBytes(config, AMPLE.limits, RANK));
  const tokenBytes = bytes ?? anyBytes(config.vocabularySize);
  return ({ blocks, limits }) => {
    const pass = new TransformerPass({ kernels, memory: memory.memory, model, cache: { pointer: cache, blocks }, region, limits, maxRank: RANK });
    const { vocabularySize } = config;
    return new SamplerRun({
      pass,
      blocks,
      kernels,
      memory: memory.memory,
      model: { vocabularySize, endTokenIds: [0] },
      tokenBytes,
      maxModelLen: LONGEST,
      seed: 1,
    });
  };
}

const essence = (generation: Generation) => ({ ...generation, cachedTokens: 0 });

describe.each([
  ['tiny', 'relaxed', 25],
  ['tiny', 'plain', 10],
  ['nano', 'relaxed', 4],
] as const)('BatchSampler over the %s model, %s kernels', async (name, build, numRuns) => {
  const bench = new Workbench(build);
  const model = await goldenModel(name, bench);
  const { config } = model;
  const adapters = ['one', 'two'].map((each) => bench.randomAdapter({ config, rank: RANK, alpha: 16, name: each }));
  const samplers = samplersOf(bench, model);
  const trainer = new TrainerPass({
    kernels: bench.kernels,
    memory: bench.memory.memory,
    model,
    region: bench.memory.allocate(trainingBytes(config, { tokens: 2 * LONGEST, rank: RANK, checkpointing: false })),
    checkpointing: false,
  });
  /** Of the tokens from `first` on. */
  const trained = (ids: Int32Array, first: number, adapter: AdapterWeights | null, temperature: number): Float32Array => {
    const targets = Int32Array.from({ length: ids.length - first }, (_, i) => first + i);
    const batch = { ids, offsets: Int32Array.of(0, ids.length), targets, temperature };
    return trainer.forward(batch, { adapter, retain: false, entropy: false }).logProbs;
  };
  const tokens = (seed: number, length: number) => randomTokens(seed, length, config.vocabularySize);

  it('gives a request the same tokens and log-probs, to the bit, whatever else runs and however little room there is', () => {
    fc.assert(
      fc.property(anyRoom, anyMoves({ vocabularySize: config.vocabularySize, adapters }), (room, moves) => {
        const run = samplers(room);
        const requests = play(run, moves);
        expect(run.failures.size).toBe(0);
        expect(run.sampler.stats.blocksUsed).toBe(0);
        for (const request of requests) {
          const alone = samplers(AMPLE).add(request).finish().generation(request.id);
          expect(essence(run.generation(request.id))).toEqual(essence(alone));
        }
      }),
      { numRuns },
    );
  });

  it.each([1, 0.7])('reports the log-probs that training computes, to the bit, at temperature %s', (temperature) => {
    // Little room, so that chunks, shared prefixes and restarts occur.
    const run = samplers({ blocks: 12, limits: { rows: 20, logitRows: 3 } });
    const requests = Array.from({ length: 9 }, (_, id) =>
      requestOf({
        id,
        prompt: Int32Array.from([...tokens(0, 37), ...tokens(10 + id, id)]),
        adapter: [null, ...adapters][Math.floor(id / 3)]!,
        maxTokens: 60,
        sampling: { temperature, seed: id },
        stop: { ignoreEnd: true },
        logProbsMode: temperature === 1 ? 'raw' : 'processed',
      }),
    );
    run.add(...requests).finish();
    expect(run.sampler.stats.preemptions).toBeGreaterThan(0);
    expect(run.sampler.stats.cachedTokens).toBeGreaterThan(0);
    for (const { id, prompt, adapter } of requests) {
      const { ids, logProbs } = run.generation(id);
      expect(ids).toHaveLength(60);
      expect(logProbs).toEqual(trained(Int32Array.from([...prompt, ...ids]), prompt.length, adapter, temperature));
    }
  });

  it('scores a prompt with the log-probs that training computes', () => {
    for (const adapter of [null, ...adapters]) {
      const prompt = tokens(3, 70);
      const run = samplers({ blocks: 12, limits: { rows: 20, logitRows: 3 } });
      const { promptLogProbs } = run
        .add(requestOf({ id: 1, prompt, adapter, promptLogProbs: 0, maxTokens: 1 }))
        .finish()
        .generation(1);
      expect(Float32Array.from(promptLogProbs!.slice(1), (each) => each![0]!.logProb)).toEqual(trained(prompt, 1, adapter, 1));
    }
  });

  it('keeps adapters apart', () => {
    const run = samplers(AMPLE);
    const kinds = [null, ...adapters];
    for (const [id, adapter] of kinds.entries()) run.add(requestOf({ id, prompt: tokens(1, 40), adapter, maxTokens: 20, stop: { ignoreEnd: true } }));
    run.finish();
    expect(new Set(kinds.map((_, id) => [...run.generation(id).logProbs].join(' '))).size).toBe(3);
  });

  it('fails a request through an adapter of NaN, and no other, then or later', () => {
    const broken = bench.randomAdapter({ config, rank: RANK, alpha: 16, name: 'broken' });
    bench.floats(broken.layers[1]!.v_proj!.a.pointer, 3).fill(NaN);
    const run = samplers(AMPLE);
    const prompt = tokens(1, 40);
    const good = [null, ...adapters].map((adapter, id) => requestOf({ id, prompt, adapter, maxTokens: 20, stop: { ignoreEnd: true } }));
    const before = samplers(AMPLE)
      .add(...good)
      .finish();
    run.add(good[0]!, requestOf({ id: 9, prompt, adapter: broken }), good[1]!, good[2]!).finish();
    expect([...run.failures.keys()]).toEqual([9]);
    // In the very blocks where the NaN was.
    const after = samplers({ ...AMPLE, blocks: 20 })
      .add(...good)
      .finish();
    for (const { id } of good) {
      expect(essence(run.generation(id))).toEqual(essence(before.generation(id)));
      expect(essence(after.generation(id))).toEqual(essence(before.generation(id)));
    }
  });
});

describe('BatchSampler over the nano model and its tokenizer', async () => {
  const bench = new Workbench();
  const model = await goldenModel('nano', bench);
  const tokenizer = await openTokenizer(NANO, model.config);
  const samplers = samplersOf(bench, model, tokenizer.bytes);
  const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });

  it('stops at a tag, which is one token and text, but at no control token that leaves none', () => {
    const run = samplers(AMPLE);
    const [tag] = encode('</search>');
    const [end] = encode('<|im_end|>');
    const forced = {
      prompt: encode('Who wrote Hamlet?'),
      maxTokens: 3,
      stop: { strings: ['</search>', '<|im_end|>'], includeString: true, ignoreEnd: true },
    };
    run.add(requestOf({ id: 1, ...forced, allowedTokenIds: [tag!] }), requestOf({ id: 2, ...forced, allowedTokenIds: [end!] })).finish();
    expect(run.generation(1)).toMatchObject({ ids: Int32Array.of(tag!), text: '</search>', finish: 'stop', stopReason: '</search>' });
    expect(run.generation(2)).toMatchObject({ ids: Int32Array.of(end!, end!, end!), text: '', finish: 'length' });
  });

  it('gives the text that the tokenizer decodes', () => {
    const run = samplers(AMPLE);
    const prompt = encode('<|im_start|>user\nWho wrote Hamlet?<|im_end|>\n<|im_start|>assistant\n');
    // Hot, so that halves of characters occur.
    for (let id = 0; id < 40; id++) {
      const sampling = { temperature: 1 + (id % 4) * 0.3, seed: id };
      run.add(requestOf({ id, prompt, maxTokens: 40, sampling, skipSpecialTokens: id % 2 === 0, streams: true }));
    }
    run.finish();
    for (let id = 0; id < 40; id++) {
      const { ids, text } = run.generation(id);
      expect(text).toBe(tokenizer.decode(ids, { skipSpecialTokens: id % 2 === 0 }));
      expect(
        run.deltas
          .get(id)!
          .map((delta) => delta.text)
          .join(''),
      ).toBe(text);
    }
  });
});
