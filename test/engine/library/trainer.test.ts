import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Engine, EngineInputError, type TokenSequence, type Trainer } from '../../../src/engine/index.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const SEQUENCES: readonly TokenSequence[] = [
  { ids: [57, 74, 81, 273, 291, 508, 347, 307], targets: [4, 5, 6, 7] },
  { ids: Int32Array.of(293, 86, 33, 12, 900) },
];

describe('Trainer', () => {
  let engine: Engine;
  let trainer: Trainer;
  beforeEach(async () => {
    engine = await Engine.open({ model: 'nano-base', threads: 2 });
    trainer = await engine.createTrainer({ rank: 4, alpha: 8 });
  });
  afterEach(() => engine.close());

  /** One step of plain maximum likelihood; returns the mean negative log-prob before it. */
  async function step(learningRate = 5e-3): Promise<number> {
    const batch = await trainer.forward(SEQUENCES);
    const all = batch.logProbs.flatMap((logProbs) => [...logProbs]);
    await trainer.backward(batch, { dLogProbs: batch.logProbs.map((logProbs) => [...logProbs].map(() => -1 / all.length)) });
    await trainer.optimStep({ learningRate });
    return -all.reduce((sum, logProb) => sum + logProb, 0) / all.length;
  }

  it('gives each sequence the log-probs of its targets, all but the first token unless it names some', async () => {
    const { logProbs, entropies } = await trainer.forward(SEQUENCES, { entropy: true });
    expect(logProbs.map(({ length }) => length)).toEqual([4, 4]);
    expect(entropies!.map(({ length }) => length)).toEqual([4, 4]);
    expect([...logProbs[0]!]).toEqual([...(await engine.logProbs(SEQUENCES[0]!.ids))].slice(3));
    expect(logProbs[1]).toEqual(await engine.logProbs(SEQUENCES[1]!.ids));
    expect((await trainer.forward(SEQUENCES)).entropies).toBeNull();
    expect((await trainer.forward(SEQUENCES, { temperature: 2 })).logProbs).not.toEqual(logProbs);
  });

  it('lowers the loss, step by step', async () => {
    const losses: number[] = [];
    for (let i = 0; i < 30; i++) losses.push(await step());
    expect(losses[0]).toBeGreaterThan(4);
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 5);
    expect(trainer.version).toBe(30);
  });

  it('takes the derivatives of its own log-probs, entropies included', async () => {
    const weights = SEQUENCES.map((_, i) => [0.3, -0.7, 0.2, 0.1].map((weight) => weight * (i + 1)));
    await step(0.05);
    const value = async () => {
      const { logProbs, entropies } = await trainer.logProbs(SEQUENCES, { entropy: true });
      return weights
        .flatMap((row, i) => row.map((weight, j) => weight * (logProbs[i]![j]! + entropies![i]![j]!)))
        .reduce((sum, part) => sum + part, 0);
    };
    const before = await value();
    const batch = await trainer.forward(SEQUENCES, { entropy: true });
    await trainer.backward(batch, { dLogProbs: weights, dEntropies: weights });
    // Plain descent, in effect: Adam's first moments are dropped and its step is much smaller than its epsilon.
    const { gradNorm } = await trainer.optimStep({ learningRate: 1, beta1: 0, beta2: 0, epsilon: 1e5, maxGradNorm: null });
    const expected = -(gradNorm ** 2) / 1e5;
    expect((await value()) - before).toBeCloseTo(expected, 3);
    expect(Math.abs(expected)).toBeGreaterThan(1e-3);
  });

  it('publishes the adapter as it is; a generation in flight keeps its version while later steps change the adapter', async () => {
    for (let i = 0; i < 5; i++) await step();
    const options = { prompt: [57, 74, 81], maxNewTokens: 120, seed: 4, ignoreEnd: true } as const;
    const first = await trainer.publish({ keep: 2 });
    expect(first).toMatchObject({ version: 5, directory: null, rank: 4, alpha: 8, isLoaded: true });
    const alone = await engine.generate({ ...options, adapter: first });
    const running = engine.generate({ ...options, adapter: first });
    for (let i = 0; i < 5; i++) await step();
    const second = await trainer.publish({ keep: 1 });
    expect([first.isLoaded, second.isLoaded, second.version]).toEqual([false, true, 10]);
    expect(await running).toEqual(alone);
    const later = await engine.generate({ ...options, adapter: second });
    expect(later.ids).not.toEqual(alone.ids);
    await expect(engine.generate({ ...options, adapter: first })).rejects.toThrow(/The adapter of version 5 has been unloaded/);
  });

  it('samples with exactly the log-probs that it trains {any step}', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), async (seed) => {
        await step();
        using adapter = await trainer.publish();
        const { ids, logProbs } = await engine.generate({ prompt: [5, 6], maxNewTokens: 20, seed, adapter });
        const targets = Array.from(ids, (_, i) => 2 + i);
        expect((await trainer.forward([{ ids: [5, 6, ...ids], targets }])).logProbs[0]).toEqual(logProbs);
      }),
      { numRuns: 5 },
    );
  });

  it('holds one published copy however often it publishes, and none after unload', async () => {
    await step();
    const before = engine.stats.memoryBytes;
    (await trainer.publish()).unload();
    await vi.waitFor(() => expect(engine.stats.memoryBytes).toBe(before));
    await trainer.publish();
    const one = engine.stats.memoryBytes - before;
    for (let i = 0; i < 5; i++) await trainer.publish();
    await vi.waitFor(() => expect(engine.stats.memoryBytes - before).toBe(one));
    expect(one).toBeGreaterThan(0);
  });

  it('keeps a published adapter after it has been closed', async () => {
    await step();
    const adapter = await trainer.publish();
    const { logProbs } = await trainer.logProbs(SEQUENCES);
    await trainer.close();
    expect(await engine.logProbs(SEQUENCES[1]!.ids, { adapter })).toEqual(logProbs[1]);
    await using again = await engine.createTrainer();
    expect([again.rank, again.alpha]).toEqual([16, 32]);
  });

  it('changes nothing of another trainer of its engine', async () => {
    await using other = await engine.createTrainer({ rank: 4, alpha: 8 });
    const losses: number[] = [];
    for (let i = 0; i < 3; i++) losses.push(await step());
    const untrained = await other.logProbs(SEQUENCES);
    expect(untrained.logProbs).toEqual((await trainer.logProbs(SEQUENCES, { adapter: 'off' })).logProbs);
    expect(untrained.logProbs).not.toEqual((await trainer.logProbs(SEQUENCES)).logProbs);
    const batch = await other.forward(SEQUENCES);
    const all = batch.logProbs.flatMap((logProbs) => [...logProbs]);
    await step();
    await other.backward(batch, { dLogProbs: batch.logProbs.map((logProbs) => [...logProbs].map(() => -1 / all.length)) });
    await other.optimStep({ learningRate: 5e-3 });
    // The second loss of the first trainer came after the same first step.
    const { logProbs } = await other.logProbs(SEQUENCES);
    expect(-logProbs.flatMap((one) => [...one]).reduce((sum, logProb) => sum + logProb, 0) / all.length).toBe(losses[1]);
    expect([trainer.version, other.version]).toEqual([4, 1]);
  });

  it('saves what it publishes, and continues from it', async () => {
    for (let i = 0; i < 3; i++) await step();
    const { logProbs } = await trainer.logProbs(SEQUENCES);
    const base = await trainer.logProbs(SEQUENCES, { adapter: 'off' });
    const directory = join(folder.path, 'saved');
    await trainer.save(directory);
    using adapter = await engine.loadAdapter(directory);
    expect(await engine.logProbs(SEQUENCES[1]!.ids, { adapter })).toEqual(logProbs[1]);
    await trainer.close();
    await expect(engine.createTrainer({ rank: 4, alpha: 32, initial: directory })).rejects.toThrow(/has alpha 8, .* Set alpha to 8, or/);
    await using next = await engine.createTrainer({ rank: 4, alpha: 8, initial: directory });
    expect((await next.logProbs(SEQUENCES)).logProbs).toEqual(logProbs);
    expect((await next.logProbs(SEQUENCES, { adapter: 'initial' })).logProbs).toEqual(logProbs);
    expect((await next.logProbs(SEQUENCES, { adapter: 'off' })).logProbs).toEqual(base.logProbs);
  });

  it('refuses what it cannot train, in the words of the program', async () => {
    const forward = (...sequences: TokenSequence[]) => trainer.forward(sequences);
    await expect(forward()).rejects.toThrow('The sequences have no targets. At least one token must be predicted.');
    await expect(forward({ ids: [1] })).rejects.toThrow(/^Sequence 0 has one token/);
    await expect(forward(...SEQUENCES, { ids: [1, 2], targets: [0] })).rejects.toThrow(
      'The targets of sequence 2 must ascend from 1 to 1, got 0 at index 0.',
    );
    await expect(forward({ ids: [1, 2, 3], targets: [2, 1] })).rejects.toThrow(/got 1 at index 1/);
    await expect(forward({ ids: [1, 0.5] })).rejects.toThrow('The ids of sequence 0 must be whole numbers, got 0.5 at index 1.');
    await expect(forward({ ids: [1, 9999] })).rejects.toThrow(EngineInputError);
    await expect(forward({ ids: [1, 2], mask: [1] } as TokenSequence)).rejects.toThrow('Sequence 0 has no option mask');
    await expect(trainer.optimStep({ learningRate: 1 })).rejects.toThrow(/no gradient/);
    const batch = await forward(...SEQUENCES);
    await expect(trainer.backward(batch, {} as never)).rejects.toThrow('dLogProbs must be a list of arrays, one per sequence, got undefined.');
    await expect(trainer.backward(batch, { dLogProbs: [[1, 1, 1, 1], undefined as never] })).rejects.toThrow(
      'dLogProbs[1] must have 4 numbers, one per target, got undefined.',
    );
    await expect(trainer.backward(batch, { dLogProbs: [[1, 1, 1, 1]] })).rejects.toThrow('dLogProbs must have 2 arrays, one per sequence, got 1.');
    await expect(trainer.backward(batch, { dLogProbs: [[1], [1, 1, 1, 1, 1, 1, 1]] })).rejects.toThrow(
      'dLogProbs[0] must have 4 numbers, one per target, got 1.',
    );
    await expect(
      trainer.backward(batch, {
        dLogProbs: [
          [1, 1, 1, NaN],
          [1, 1, 1, 1],
        ],
      }),
    ).rejects.toThrow(/NaN or an infinity/);
    await trainer.backward(batch, {
      dLogProbs: [
        [1, 1, 1, 1],
        [1, 1, 1, 1],
      ],
    });
    await expect(
      trainer.backward(batch, {
        dLogProbs: [
          [1, 1, 1, 1],
          [1, 1, 1, 1],
        ],
      }),
    ).rejects.toThrow(/not retained/);
    await expect(trainer.optimStep({ learningRate: -1 })).rejects.toThrow("Adam's learningRate must be a finite number of at least 0, got -1.");
    await expect(trainer.optimStep({ learningRate: 1, lr: 1 } as { learningRate: number })).rejects.toThrow('optimStep has no option lr');
    await trainer.zeroGrad();
    await expect(trainer.optimStep({ learningRate: 1 })).rejects.toThrow(/no gradient/);
  });
});
