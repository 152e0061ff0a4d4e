import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import type { SamplerRequest } from '../../../src/engine/sampler/sampler-types.ts';
import { samplingPlan } from '../../../src/engine/sampler/sampling-plan.ts';
import { TokenChooser } from '../../../src/engine/sampler/token-chooser.ts';
import { requestOf, testKernels } from './sampler-run.ts';

const SIZE = 30;
const { memory, kernels } = testKernels;
const room = memory.allocate(64 * 4);
const chooser = new TokenChooser(kernels, memory.memory, SIZE);
const row = () => new Float32Array(memory.memory.buffer, room.pointer, 64);

type Options = Partial<SamplerRequest['sampling']> & Partial<Pick<SamplerRequest, 'logProbs' | 'logProbsMode' | 'allowedTokenIds'>>;

const plan = (
  { logProbs = 3, logProbsMode = 'processed', allowedTokenIds = null, ...sampling }: Options,
  stop: Partial<SamplerRequest['stop']> = {},
) =>
  samplingPlan(
    requestOf({ id: 0, prompt: Int32Array.of(1), sampling: { temperature: 1, ...sampling }, stop, logProbs, logProbsMode, allowedTokenIds }),
    { vocabularySize: SIZE, endTokenIds: [0] },
  );

const choose = (logits: readonly number[], options: ReturnType<typeof plan>, random: Random, generated = 0) => {
  // What lies beyond the vocabulary is large, and may not count.
  row().fill(50).set(logits);
  return chooser.choose(room.pointer, options, generated, random);
};

/** vLLM's own way, step by step, over whole rows: -Infinity is out. */
function reference(logits: readonly number[], { temperature = 1, topK = -1, topP = 1, minP = 0, allowedTokenIds = null }: Options): number[] {
  let scores = Array.from(Float32Array.from(logits), (x, id) =>
    allowedTokenIds === null || allowedTokenIds.includes(id) ? x / temperature : -Infinity,
  );
  const softmax = () => {
    const largest = Math.max(...scores);
    const exps = scores.map((x) => Math.exp(x - largest));
    const sum = exps.reduce((a, b) => a + b);
    return exps.map((x) => x / sum);
  };
  if (minP > 0) {
    const p = softmax();
    scores = scores.map((x, i) => (p[i]! < Math.max(...p) * minP ? -Infinity : x));
  }
  if (topK > 0) {
    const least = scores.toSorted((a, b) => b - a)[topK - 1]!;
    scores = scores.map((x) => (x < least ? -Infinity : x));
  }
  if (topP < 1) {
    const p = softmax();
    const ascending = scores.map((_, id) => id).toSorted((a, b) => p[a]! - p[b]! || b - a);
    let sum = 0;
    for (const id of ascending.slice(0, -1)) {
      sum += p[id]!;
      if (sum <= 1 - topP) scores[id] = -Infinity;
    }
  }
  return softmax();
}

/** Eighths, so that some are equal. */
const anyLogits = fc.array(
  fc.integer({ min: -64, max: 64 }).map((x) => x / 8),
  { minLength: SIZE, maxLength: SIZE },
);

describe('TokenChooser', () => {
  it('filters as vLLM does: temperature, min-p, top-k, top-p, each on what is left', () => {
    const options = fc.record({
      temperature: fc.constantFrom(0.5, 1, 1.7),
      topK: fc.constantFrom(-1, 0, 1, 4, 29, 100),
      // No sum of equal shares comes near these.
      topP: fc.constantFrom(1, 0.947, 0.613, 0.093),
      minP: fc.constantFrom(0, 0.021, 0.47, 1),
      allowedTokenIds: fc.constantFrom(null, null, [3, 4, 9, 11, 12, 4]),
      seed: fc.nat(),
    });
    fc.assert(
      fc.property(anyLogits, options, (logits, { seed, ...wanted }) => {
        const p = reference(logits, wanted);
        const chosen = choose(logits, plan({ ...wanted, logProbs: SIZE }), Random.fromSeed(seed))!;
        const [own, ...all] = chosen.alternatives!.filter(({ logProb }) => logProb > -Infinity);
        const kept = p.flatMap((each, id) => (each > 0 ? [id] : []));
        expect(all.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual(kept);
        for (const { id, logProb } of all) expect(logProb).toBeCloseTo(Math.log(p[id]!), 4);
        expect(own).toEqual({ ...all.find(({ id }) => id === chosen.id), rank: own!.rank });
        expect(own!.logProb).toBe(chosen.logProb);
        expect(own!.rank).toBe(1 + all.filter(({ logProb }) => logProb > chosen.logProb).length);
      }),
      { numRuns: 500 },
    );
  });

  it.each<[string, Options]>([
    ['as they are', {}],
    ['warmer', { temperature: 1.6 }],
    ['of the likeliest', { topK: 6 }],
    ['of the core', { topP: 0.7, temperature: 0.8 }],
    ['of the allowed', { allowedTokenIds: [2, 3, 5, 7, 11], minP: 0.01 }],
  ])('draws tokens as often as their log-probs say: %s', (_, options) => {
    const logits = Array.from({ length: SIZE }, (__, id) => 2.5 * Math.sin(id * 1.7));
    const p = reference(logits, options);
    const random = Random.fromSeed(11);
    const counts = new Float64Array(SIZE);
    const draws = 20_000;
    for (let i = 0; i < draws; i++) counts[choose(logits, plan({ ...options, logProbs: null }), random)!.id]!++;
    let chiSquare = 0;
    for (const [id, each] of p.entries()) if (each > 0) chiSquare += (counts[id]! - draws * each) ** 2 / (draws * each);
    expect(p.every((each, id) => each > 0 || counts[id] === 0)).toBe(true);
    // 99.9 % of a chi-square with 29 degrees of freedom; with fewer it is less likely still.
    expect(chiSquare).toBeLessThan(58.3);
  });

  it('keeps the likeliest under the smallest top-p, the lowest id in a tie', () => {
    const equals = fc.record({
      logit: fc.float({ min: -30, max: 30, noNaN: true }),
      places: fc.uniqueArray(fc.nat(SIZE - 1), { minLength: 1, maxLength: 5 }),
      topP: fc.constantFrom(Number.MIN_VALUE, 1e-17, 1e-9),
      seed: fc.nat(),
    });
    fc.assert(
      fc.property(equals, ({ logit, places, topP, seed }) => {
        const logits = Array.from({ length: SIZE }, (_, id) => (places.includes(id) ? logit : logit - 40));
        expect(choose(logits, plan({ topP, topK: places.length }), Random.fromSeed(seed))!.id).toBe(Math.min(...places));
      }),
      { numRuns: 500 },
    );
  });

  it('takes the likeliest at temperature 0, the lowest id in a tie, and draws nothing', () => {
    const logits = Array.from({ length: SIZE }, (_, id) => (id === 7 || id === 19 ? 3 : 1));
    const random = Random.fromSeed(1);
    for (const sampling of [{ temperature: 0 }, { temperature: 0, topK: 5, topP: 0.5 }, { temperature: 9e-6 }])
      expect(choose(logits, plan(sampling), random)!.id).toBe(7);
    expect(choose(logits, plan({ temperature: 0, allowedTokenIds: [25, 19, 3] }), random)!.id).toBe(19);
    expect(random.float()).toBe(Random.fromSeed(1).float());
  });

  it('draws one number a token, the same token whatever log-probs are asked for', () => {
    fc.assert(
      fc.property(anyLogits, fc.constantFrom(1, 0.4), fc.constantFrom(1, 0.9), fc.nat(), (logits, temperature, topP, seed) => {
        const asked = [
          { logProbs: null },
          { logProbs: 0, logProbsMode: 'raw' },
          { logProbs: 5, logProbsMode: 'raw' },
          { logProbs: 0, logProbsMode: 'processed' },
        ] as const;
        const found = asked.map((each) => {
          const random = Random.fromSeed(seed);
          return [choose(logits, plan({ temperature, topP, ...each }), random)!.id, random.uint32()];
        });
        for (const each of found) expect(each).toEqual(found[0]);
      }),
    );
  });

  it('reports raw log-probs of the model itself, untempered and unfiltered, to the bit', () => {
    fc.assert(
      fc.property(
        anyLogits,
        fc.constantFrom(0, 0.4, 1, 2),
        fc.constantFrom(-1, 3),
        fc.constantFrom(null, [1, 2, 3]),
        (logits, temperature, topK, allowedTokenIds) => {
          const chosen = choose(logits, plan({ temperature, topK, allowedTokenIds, logProbs: 2, logProbsMode: 'raw' }), Random.fromSeed(4))!;
          row().fill(50).set(logits);
          kernels.logSoftmax(room.pointer, 32, 1, 32, SIZE, 1);
          const raw = [...row().subarray(0, SIZE)];
          expect(chosen.logProb).toBe(raw[chosen.id]);
          const order = raw.map((_, id) => id).toSorted((a, b) => raw[b]! - raw[a]! || a - b);
          expect(chosen.alternatives).toEqual([
            { id: chosen.id, logProb: chosen.logProb, rank: 1 + raw.filter((each) => each > chosen.logProb).length },
            { id: order[0], logProb: raw[order[0]!], rank: 1 },
            { id: order[1], logProb: raw[order[1]!], rank: 2 },
          ]);
        },
      ),
    );
  });

  it('gives no end token and no stop id within the first minTokens, unless nothing else is allowed', () => {
    const logits = Array.from({ length: SIZE }, (_, id) => (id === 0 ? 9 : id === 4 ? 8 : id === 5 ? 1 : 0));
    const greedy = (allowedTokenIds: readonly number[] | null, generated: number) =>
      choose(logits, plan({ temperature: 0, allowedTokenIds }, { minTokens: 2, tokenIds: [4] }), Random.fromSeed(1), generated)!.id;
    expect(greedy(null, 0)).toBe(5);
    expect(greedy(null, 1)).toBe(5);
    expect(greedy(null, 2)).toBe(0);
    expect(greedy([4, 9], 0)).toBe(9);
    expect(greedy([0, 4], 0)).toBe(0);
  });

  it.each([NaN, Infinity, -Infinity])('chooses and scores nothing where a logit is %s', (bad) => {
    const logits = Array.from({ length: SIZE }, (_, id) => (id === 29 ? bad : 0));
    for (const options of [{}, { topK: 2 }, { temperature: 0 }, { allowedTokenIds: [1] }])
      expect(choose(logits, plan(options), Random.fromSeed(1))).toBeNull();
    row().set(logits);
    expect(chooser.score(room.pointer, 3, 1)).toBeNull();
  });
});
