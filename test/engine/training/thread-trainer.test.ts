import { beforeAll, describe, expect, it } from 'vitest';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { ThreadTrainer } from '../../../src/engine/training/thread-trainer.ts';
import type { ForwardCommand } from '../../../src/engine/training/training-commands.ts';
import { smallBatch } from '../../contracts/gradient-cases.ts';
import { NANO_BASE } from '../../trainer/gradients/embedded/nano-adapter.ts';
import { loadModel } from '../from-directory.ts';

const memory = new SharedMemory();
const { module } = loadKernelsModule();
const kernels = instantiateKernels(module, memory.memory);
const region = memory.allocate(2 ** 23);
const vectors = memory.allocate(1024);
let trainer: ThreadTrainer;
beforeAll(async () => {
  const model = await loadModel(NANO_BASE, { memory, kernels, signal: new AbortController().signal });
  trainer = new ThreadTrainer({ kernels, memory: memory.memory, model });
});

function forward(change: Partial<ForwardCommand> = {}): ForwardCommand {
  return { kind: 'forward', batch: smallBatch(1600), adapter: null, retain: false, entropy: false, checkpointing: false, region, ...change };
}

/** 16 numbers at the address of the i-th vector. */
function vector(i: number, numbers?: readonly number[]): Float32Array {
  const view = new Float32Array(memory.memory.buffer, vectors.pointer + i * 64, 16);
  if (numbers) view.set(numbers);
  return view;
}

const count16 = (f: (i: number) => number) => Array.from({ length: 16 }, (_, i) => f(i));

describe('ThreadTrainer', () => {
  it('gives log-probs and, where they are asked for, entropies', () => {
    expect(trainer.handle(forward())).toMatchObject({ kind: 'log-probs', entropy: null, logProbs: { length: 7 } });
    expect(trainer.handle(forward({ entropy: true }))).toMatchObject({ kind: 'log-probs', entropy: { length: 7 } });
  });

  it.each<[string, string, RegExp, () => ForwardCommand]>([
    ['a region that is too small', 'out_of_memory', /needs .* MiB/, () => forward({ region: { pointer: region.pointer, bytes: 4096 } })],
    ['an invalid token', 'invalid', /tokens/, () => forward({ batch: { ...smallBatch(1600), ids: smallBatch(1600).ids.with(3, 9999) } })],
  ])('answers %s with its code, and keeps working', (_, code, message, command) => {
    const before = trainer.handle(forward());
    expect(trainer.handle(command())).toMatchObject({ kind: 'failed', code, message: expect.stringMatching(message) });
    expect(trainer.handle(forward())).toEqual(before);
  });

  it('answers a backward pass without a forward one with a failure', () => {
    const gradient = { rank: 1, layers: [] };
    const numbers = { pointer: vectors.pointer, count: 16, fresh: true };
    const answer = trainer.handle({ kind: 'backward', gradient, numbers, dLogProbs: new Float32Array(7), dEntropy: null, scale: 1 });
    expect(answer).toMatchObject({ kind: 'failed', code: 'invalid' });
  });

  it('adds vectors up in the first, in their order, and gives the sum of squares', () => {
    vector(
      0,
      count16(() => 1e8),
    );
    vector(
      1,
      count16((i) => i),
    );
    vector(
      2,
      count16(() => -1e8),
    );
    const pointers = [0, 1, 2].map((i) => vectors.pointer + i * 64);
    const expected = count16((i) => Math.fround(Math.fround(1e8 + i) - 1e8));
    const value = expected.reduce((sum, x) => sum + x * x, 0);
    expect(trainer.handle({ kind: 'sum', pointers, count: 16 })).toEqual({ kind: 'sum-of-squares', value });
    expect([...vector(0)]).toEqual(expected);
  });

  it('takes a step of AdamW on a slice and leaves the rest', () => {
    vector(
      0,
      count16(() => 1),
    );
    vector(
      1,
      count16(() => 0.5),
    );
    vector(
      2,
      count16(() => 0),
    );
    vector(
      3,
      count16(() => 0),
    );
    const at = (i: number) => vectors.pointer + i * 64;
    const options = { learningRate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 0, weightDecay: 0.5, correction1: 0.1, correction2: 0.01, scale: 2 };
    const answer = trainer.handle({
      kind: 'adam',
      parameters: at(0),
      gradient: at(1),
      firstMoments: at(2),
      secondMoments: at(3),
      count: 8,
      ...options,
    });
    expect(answer).toEqual({ kind: 'done' });
    // 1 - 0.1 · 0.5 · 1, then 0.1 · 1 for a first step of any size.
    expect(vector(0)[7]).toBeCloseTo(0.85, 6);
    expect([vector(2)[7], vector(3)[7]]).toEqual([expect.closeTo(0.1, 6), expect.closeTo(0.01, 7)]);
    expect([...vector(0)].slice(8)).toEqual(Array.from({ length: 8 }, () => 1));
  });
});
