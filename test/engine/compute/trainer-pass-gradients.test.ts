import { describe, expect, it } from 'vitest';
import { ADAPTED, type AdapterWeights, type ModelConfig } from '../../../src/engine/model/model-types.ts';
import { moduleSize, randomLora, TINY } from './any-model.ts';
import { batchOf, relativeError, someGradient, someTokens, TinyTrainer } from './tiny-trainer.ts';

const [RANK, ALPHA] = [4, 6];
const OPTIONS = { config: TINY, rank: RANK, scale: ALPHA / RANK, tokens: 400 };
const head = someTokens('head', 40, TINY.vocabularySize);
const sequences = [
  [...head, ...someTokens('first', 20, TINY.vocabularySize)],
  [...head, ...someTokens('second', 25, TINY.vocabularySize)],
  [...head.slice(0, 20), ...someTokens('third', 9, TINY.vocabularySize)],
  someTokens('fourth', 5, TINY.vocabularySize),
];
const batch = batchOf(sequences);
const count = batch.targets.length;
const d = { dLogProbs: someGradient('log-probs', count), dEntropy: someGradient('entropy', count) };

describe.each<[string, ModelConfig, number]>([
  ['a tiny model', TINY, RANK],
  ['a head that takes three pieces on the way back', { ...TINY, vocabularySize: 5003, hiddenSize: 16, tiedEmbeddings: true }, RANK],
  ['a rank that is not a multiple of 8', TINY, 13],
])('TrainerPass gradients of %s', (_, config, rank) => {
  it.each([1, 30])('say how the objective changes when the adapter is moved, with targets from place %i on', (firstTarget) => {
    const trainer = new TinyTrainer({ ...OPTIONS, config, rank, scale: ALPHA / rank });
    const some = batchOf(sequences, { firstTarget, temperature: 0.8 });
    const g = { dLogProbs: d.dLogProbs.slice(0, some.targets.length), dEntropy: d.dEntropy.slice(0, some.targets.length) };
    const { gradient } = trainer.gradient(some, trainer.bench.randomAdapter({ config, rank, alpha: ALPHA }), g);
    const size = Math.hypot(...gradient);
    const along = someGradient('direction', gradient.length).map((value, i) => 0.01 * value + (0.1 * gradient[i]!) / size);
    const moved = (step: number): number => {
      const adapter = movedAdapter(trainer, { config, rank }, along, step);
      const { logProbs, entropy } = trainer.pass.forward(some, { adapter, retain: false, entropy: true });
      return logProbs.reduce((sum, value, i) => sum + value * g.dLogProbs[i]! + entropy![i]! * g.dEntropy[i]!, 0);
    };
    const slope = gradient.reduce((sum, value, i) => sum + value * along[i]!, 0);
    const measured = (8 * (moved(0.5) - moved(-0.5)) - (moved(1) - moved(-1))) / 6;
    expect(Math.abs(slope)).toBeGreaterThan(0.1);
    expect(Math.abs(measured / slope - 1)).toBeLessThan(2e-3);
  });
});

/** The random adapter, `step` along a direction over all its numbers. */
function movedAdapter(
  trainer: TinyTrainer,
  { config, rank }: { readonly config: ModelConfig; readonly rank: number },
  along: Float32Array,
  step: number,
): AdapterWeights {
  const tensors = new Map<string, Float64Array>();
  let at = 0;
  for (let layer = 0; layer < config.layers; layer++) {
    for (const module of ADAPTED) {
      for (const half of ['A', 'B'] as const) {
        const values = randomLora(config, rank, [layer, module, half]).map((value) => value + step * along[at++]!);
        tensors.set(`${layer} ${module} ${half}`, values);
      }
    }
  }
  return trainer.bench.adapter({ config, rank, alpha: ALPHA, tensor: (...place) => tensors.get(place.join(' '))! });
}

describe('TrainerPass gradients', () => {
  const trainer = new TinyTrainer(OPTIONS);
  const adapter = trainer.bench.randomAdapter({ config: TINY, rank: RANK, alpha: ALPHA });
  const expected = trainer.gradient(batch, adapter, d);

  it('are the same bits with checkpointing', () => {
    const sparing = new TinyTrainer({ ...OPTIONS, checkpointing: true });
    const same = sparing.bench.randomAdapter({ config: TINY, rank: RANK, alpha: ALPHA });
    expect(sparing.gradient(batch, same, d)).toEqual(expected);
  });

  it('add up over sequences that are trained alone: nothing is lost or counted twice where beginnings are shared', () => {
    let at = 0;
    const parts = sequences.map((sequence) => {
      const alone = batchOf([sequence]);
      const [from, to] = [at, (at += alone.targets.length)];
      return trainer.gradient(alone, adapter, { dLogProbs: d.dLogProbs.slice(from, to), dEntropy: d.dEntropy.slice(from, to) });
    });
    const sum = expected.gradient.map((_, i) => parts.reduce((total, { gradient }) => total + gradient[i]!, 0));
    expect(relativeError(expected.gradient, sum)).toBeLessThan(2e-6);
    expect([...expected.logProbs]).toEqual(parts.flatMap(({ logProbs }) => [...logProbs]));
  });

  it('count a repeated sequence twice', () => {
    const once = batchOf([sequences[0]!]);
    const g = d.dLogProbs.slice(0, once.targets.length);
    const twice = trainer.gradient(batchOf([sequences[0]!, sequences[0]!]), adapter, { dLogProbs: Float32Array.from([...g, ...g]), dEntropy: null });
    const double = trainer.gradient(once, adapter, { dLogProbs: g.map((value) => 2 * value), dEntropy: null });
    expect(relativeError(twice.gradient, double.gradient)).toBeLessThan(2e-6);
  });

  it('are added to what is there', () => {
    const gradient = trainer.bench.gradient({ config: TINY, rank: RANK });
    for (let i = 0; i < 2; i++) {
      trainer.pass.forward(batch, { adapter, retain: true, entropy: true });
      trainer.pass.backward(gradient, { ...d, scale: ALPHA / RANK });
    }
    expect(
      relativeError(
        trainer.numbers(gradient),
        expected.gradient.map((value) => 2 * value),
      ),
    ).toBeLessThan(1e-6);
  });

  it('owe nothing to what an earlier batch left in the memory', () => {
    const late = batchOf(sequences, { firstTarget: 30 });
    const g = { dLogProbs: d.dLogProbs.slice(0, late.targets.length), dEntropy: null };
    const clean = trainer.gradient(late, adapter, g);
    trainer.poison();
    expect(trainer.gradient(late, adapter, g)).toEqual(clean);
    expect(clean.gradient.every(Number.isFinite)).toBe(true);
  });

  it('are right without an entropy in the forward pass', () => {
    const gradient = trainer.bench.gradient({ config: TINY, rank: RANK });
    trainer.pass.forward(batch, { adapter, retain: true, entropy: false });
    trainer.pass.backward(gradient, { ...d, scale: ALPHA / RANK });
    expect(trainer.numbers(gradient)).toEqual(expected.gradient);
  });

  it('leave out modules that are not adapted and pass through them', () => {
    const without = ['q_proj', 'up_proj', 'o_proj'] as const;
    const silent = (...place: Parameters<typeof randomLora>[2]) =>
      randomLora(TINY, RANK, place).map((value) => (without.some((name) => name === place[1]) ? 0 : value));
    const partial = trainer.gradient(batch, trainer.bench.randomAdapter({ config: TINY, rank: RANK, alpha: ALPHA, without }), d);
    const zeroed = trainer.gradient(batch, trainer.bench.adapter({ config: TINY, rank: RANK, alpha: ALPHA, tensor: silent }), d);
    // Where A and B are 0, so are their gradients.
    expect(relativeError(partial.gradient, zeroed.gradient)).toBeLessThan(1e-6);
    const { inputs } = moduleSize(TINY, 'q_proj');
    expect(partial.gradient.subarray(0, RANK * inputs)).toEqual(new Float32Array(RANK * inputs));
  });
});

describe('TrainerPass with a large vocabulary', () => {
  const config: ModelConfig = {
    ...TINY,
    vocabularySize: 180_003,
    hiddenSize: 8,
    intermediateSize: 8,
    layers: 1,
    heads: 1,
    kvHeads: 1,
    tiedEmbeddings: true,
  };
  const trainer = new TinyTrainer({ config, rank: 2, scale: 1, tokens: 130 });
  const adapter = trainer.bench.randomAdapter({ config, rank: 2, alpha: 2 });
  const several = [30, 40, 50].map((length, i) => someTokens(`long ${i}`, length, config.vocabularySize));

  it('computes logits some rows at a time, again on the way back, with the results of small batches', () => {
    const all = batchOf(several);
    const g = { dLogProbs: someGradient('log-probs', all.targets.length), dEntropy: someGradient('entropy', all.targets.length) };
    const together = trainer.gradient(all, adapter, g);
    let at = 0;
    const parts = several.map((sequence) => {
      const alone = batchOf([sequence]);
      const [from, to] = [at, (at += alone.targets.length)];
      return trainer.gradient(alone, adapter, { dLogProbs: g.dLogProbs.slice(from, to), dEntropy: g.dEntropy.slice(from, to) });
    });
    expect([...together.logProbs]).toEqual(parts.flatMap(({ logProbs }) => [...logProbs]));
    expect([...together.entropy!]).toEqual(parts.flatMap(({ entropy }) => [...entropy!]));
    const sum = together.gradient.map((_, i) => parts.reduce((total, { gradient }) => total + gradient[i]!, 0));
    expect(relativeError(together.gradient, sum)).toBeLessThan(1e-5);
  });
});

describe('TrainerPass', () => {
  const trainer = new TinyTrainer(OPTIONS);
  const adapter = trainer.bench.randomAdapter({ config: TINY, rank: RANK, alpha: ALPHA });
  const gradient = trainer.bench.gradient({ config: TINY, rank: RANK });
  const forward = (some: object = {}, retain = true) => trainer.pass.forward({ ...batch, ...some }, { adapter, retain, entropy: false });
  const backward = (dLogProbs = d.dLogProbs) => trainer.pass.backward(gradient, { dLogProbs, dEntropy: null, scale: 1 });

  it('goes back once, and only through what was retained', () => {
    expect(() => backward()).toThrow(RangeError);
    forward({}, false);
    expect(() => backward()).toThrow(RangeError);
    forward();
    forward({}, false);
    expect(() => backward()).toThrow(RangeError);
    forward();
    backward();
    expect(() => backward()).toThrow(RangeError);
  });

  it('refuses gradients of another length and a batch of the base, which then is still there', () => {
    forward();
    expect(() => backward(new Float32Array(3))).toThrow(/expected gradients of/);
    expect(() => backward()).not.toThrow();
    trainer.pass.forward(batch, { adapter: null, retain: true, entropy: false });
    expect(() => backward()).toThrow(/without an adapter/);
  });

  it.each([
    ['a token beyond the vocabulary', { ids: batch.ids.with(3, TINY.vocabularySize) }],
    ['a temperature of 0', { temperature: 0 }],
    ['a temperature that is not a number', { temperature: NaN }],
    ['a sequence beyond the last position', batchOf([someTokens('too long', TINY.maxPositions + 2, 5)])],
  ])('refuses %s, and what was retained is still there', (_, wrong) => {
    forward();
    expect(() => forward(wrong)).toThrow(RangeError);
    expect(() => backward()).not.toThrow();
  });

  it('gives no numbers for a batch without targets', () => {
    const { logProbs } = forward({ targets: new Int32Array(0) });
    expect(logProbs).toHaveLength(0);
    expect(() => backward(new Float32Array(0))).not.toThrow();
  });
});
