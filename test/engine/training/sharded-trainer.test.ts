import { describe, expect, it } from 'vitest';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { EngineLostError, MemoryLimitError, NotFiniteError } from '../../../src/engine/engine-errors.ts';
import type { EngineAdapterState } from '../../../src/engine/training/trainer-types.ts';
import type { TrainingAnswer } from '../../../src/engine/training/training-commands.ts';
import { largestDifference, smallBatch, someGradient } from '../../contracts/gradient-cases.ts';
import { differentiate } from '../../trainer/gradients/embedded/plain-autograd.ts';
import { PlainQwen3 } from '../../trainer/gradients/embedded/plain-qwen3.ts';
import { Matrix } from '../../trainer/gradients/embedded/tape.ts';
import { NANO_BASE } from '../../trainer/gradients/embedded/nano-adapter.ts';
import { type NanoTrainer, openNanoTrainer } from './nano-trainer.ts';

const ADAM = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-3, weightDecay: 0.1, maxGradNorm: 0.5 };
/** θ becomes θ - 1e6 · gradient. */
const READING = { learningRate: 1e16, beta1: 0, beta2: 0, epsilon: 1e10, weightDecay: 0, maxGradNorm: null };
const KEPT = { adapter: 'on', retain: true, entropy: false } as const;
const batch = smallBatch(1600);
const dLogProbs = someGradient(batch.targets.length);
const FAULT = { kind: 'failed', code: 'internal', message: 'a fault of ours' } as const;

async function accumulate({ trainer }: NanoTrainer, phase = 0): Promise<void> {
  const { batch: id } = await trainer.forward(batch, KEPT);
  await trainer.backward(id, { dLogProbs: someGradient(batch.targets.length, phase), dEntropy: null });
}

async function train(nano: NanoTrainer, phases: readonly number[]): Promise<EngineAdapterState> {
  for (const phase of phases) {
    await accumulate(nano, phase);
    await nano.trainer.step(ADAM);
  }
  return nano.trainer.read();
}

/** All numbers of A and B. */
const flat = ({ tensors }: EngineAdapterState): number[] => tensors.flatMap(({ a, b }) => [...a, ...b]);

/** |a - b| / |b|. */
function distance(a: readonly number[], b: readonly number[]): number {
  return Math.hypot(...a.map((x, i) => x - b[i]!)) / Math.hypot(...b);
}

/** Uses the gradient up and moves the adapter. */
async function readGradient({ trainer }: NanoTrainer): Promise<number[]> {
  const before = flat(trainer.read());
  await trainer.step(READING);
  return flat(trainer.read()).map((x, i) => (before[i]! - x) / 1e6);
}

describe('ShardedTrainer', { timeout: 60_000 }, () => {
  it.each([1, 2, 3])('gives log-probs and gradients of plain float64 on %i threads', async (threads) => {
    await using nano = await openNanoTrainer({ threads });
    const { tensors } = await train(nano, [0, 1]);
    const leaves = tensors.flatMap(({ path, inputs, outputs, a, b }) => [
      [`base_model.model.${path}.lora_A.weight`, new Matrix(3, inputs, a)] as const,
      [`base_model.model.${path}.lora_B.weight`, new Matrix(outputs, 3, b)] as const,
    ]);
    const adapter = { leaves: new Map(leaves), scale: 4 };
    const plain = differentiate(new PlainQwen3(NANO_BASE), adapter, { batch, dLogProbs });
    expect(largestDifference((await nano.trainer.forward(batch, { ...KEPT, retain: false })).logProbs, plain.logProbs)).toBeLessThan(1e-5);
    await accumulate(nano);
    const expected = leaves.flatMap(([, { gradient }]) => [...gradient!]);
    expect(distance(await readGradient(nano), expected)).toBeLessThan(1e-5);
  });

  it('gives the same bits twice, and those of another number of threads up to rounding', async () => {
    await using one = await openNanoTrainer({ threads: 1 });
    await using two = await openNanoTrainer({ threads: 2 });
    await using again = await openNanoTrainer({ threads: 2 });
    const phases = [0, 1, 2];
    const found = await train(two, phases);
    expect(found).toEqual(await train(again, phases));
    expect(distance(flat(await train(one, phases)), flat(found))).toBeLessThan(1e-5);
    expect(two.commands.some(({ thread }) => thread === 1)).toBe(true);
  });

  it('gives a batch that is no longer in the threads the same gradient as one that is, to the bit', async () => {
    await using nano = await openNanoTrainer();
    await using other = await openNanoTrainer();
    const start = await train(nano, [0, 1]);
    await other.trainer.write(start);
    await accumulate(other);
    const { batch: held } = await nano.trainer.forward(batch, KEPT);
    const { batch: newer } = await nano.trainer.forward(smallBatch(1600, 0.7), KEPT);
    await nano.trainer.forward(batch, { ...KEPT, retain: false, adapter: 'off' });
    const before = nano.commands.length;
    await nano.trainer.backward(held, { dLogProbs, dEntropy: null });
    expect(nano.commands.slice(before).filter(({ command }) => command.kind === 'forward').length).toBeGreaterThan(0);
    await nano.trainer.drop(newer);
    expect(await readGradient(nano)).toEqual(await readGradient(other));
  });

  it('computes the newest batch once', async () => {
    await using nano = await openNanoTrainer();
    await accumulate(nano);
    const kinds = nano.commands.map(({ thread, command }) => `${command.kind} ${thread}`);
    expect(kinds).toEqual(['forward 0', 'forward 1', 'backward 0', 'backward 1']);
  });

  it('continues from what was read, bit for bit', async () => {
    await using nano = await openNanoTrainer();
    const state = await train(nano, [0, 1]);
    const straight = await train(nano, [2, 3]);
    await using other = await openNanoTrainer({ seed: 99 });
    await other.trainer.write(state);
    expect(await train(other, [2, 3])).toEqual(straight);
    expect(straight.step).toBe(4);
  });

  it('gives the same gradient with checkpointing, in less memory', async () => {
    await using all = await openNanoTrainer();
    await using inputs = await openNanoTrainer({ checkpointing: true });
    for (const nano of [all, inputs]) await train(nano, [0, 1]);
    expect(flat(inputs.trainer.read())).toEqual(flat(all.trainer.read()));
    expect(inputs.trainer.maxTokens).toBeGreaterThan(1.5 * all.trainer.maxTokens);
  });

  it('goes back through a batch to the same bits where a larger one after it found no memory', async () => {
    // 32 MiB; 8 of them are taken until the batch is computed.
    const memory = new SharedMemory(new WebAssembly.Memory({ initial: 2, maximum: 512, shared: true }));
    await using nano = await openNanoTrainer({ memory, memoryBytes: 2 ** 26 });
    await using other = await openNanoTrainer();
    const taken = memory.allocate(2 ** 23);
    const { batch: id } = await nano.trainer.forward(batch, KEPT);
    memory.free(taken);
    const ids = Int32Array.from({ length: 1200 }, (_, i) => (i * 7919) % 1599);
    const large = { ids, offsets: Int32Array.of(0, 400, 800, 1200), targets: Int32Array.of(399, 799, 1199), temperature: 1 };
    await expect(nano.trainer.forward(large, KEPT)).rejects.toThrow(MemoryLimitError);
    // Any new allocation writes there.
    const rest = memory.allocate(2 ** 23 + 2 ** 22);
    new Float32Array(memory.memory.buffer, rest.pointer, rest.bytes / 4).fill(Number.NaN);
    await nano.trainer.backward(id, { dLogProbs, dEntropy: null });
    await accumulate(other);
    expect(await readGradient(nano)).toEqual(await readGradient(other));
  });

  it('refuses a batch beyond its memory before anything changes, and takes one of maxTokens', async () => {
    await using nano = await openNanoTrainer({ memoryBytes: 8 * 2 ** 20 });
    const { maxTokens } = nano.trainer;
    // Nothing is shared, and all that can be a target is one.
    const long = (tokens: number) => {
      const ids = Int32Array.from({ length: tokens }, (_, i) => (i * 7919) % 1600);
      const offsets = Int32Array.of(...Array.from({ length: Math.floor(tokens / 16) }, (_, i) => 16 * i), tokens);
      const targets = ids.map((_, i) => i).filter((place) => !offsets.includes(place));
      return { ids, offsets, targets, temperature: 1 };
    };
    expect(maxTokens).toBeGreaterThan(50);
    await accumulate(nano);
    const { batch: held } = await nano.trainer.forward(batch, KEPT);
    const commands = nano.commands.length;
    await expect(nano.trainer.forward(long(4 * maxTokens), KEPT)).rejects.toBeInstanceOf(MemoryLimitError);
    expect(nano.commands).toHaveLength(commands);
    await nano.trainer.backward(held, { dLogProbs, dEntropy: null });
    const { batch: most } = await nano.trainer.forward(long(maxTokens), KEPT);
    await nano.trainer.drop(most);
    await using other = await openNanoTrainer();
    for (const _ of [0, 1]) await accumulate(other);
    expect(await readGradient(nano)).toEqual(await readGradient(other));
  });

  it('reports a model that gives NaN, and continues from what is written next', async () => {
    await using nano = await openNanoTrainer();
    const state = await train(nano, [0]);
    const tensors = state.tensors.map((tensor) => ({ ...tensor, b: tensor.b.map(() => 3e38) }));
    await nano.trainer.write({ ...state, tensors });
    await expect(nano.trainer.forward(batch, KEPT)).rejects.toBeInstanceOf(NotFiniteError);
    await nano.trainer.write(state);
    expect(nano.trainer.read()).toEqual(state);
    expect((await nano.trainer.forward(batch, KEPT)).logProbs.every(Number.isFinite)).toBe(true);
  });

  it('goes back through its batch without computing it again while another trainer only steps, serves and closes', async () => {
    await using nano = await openNanoTrainer();
    await using alone = await openNanoTrainer();
    const [stepped, closed] = [await nano.another({ rank: 5 }), await nano.another({ seed: 2 })];
    const { batch: other } = await stepped.forward(batch, KEPT);
    await stepped.backward(other, { dLogProbs, dEntropy: null });
    const { batch: id } = await nano.trainer.forward(batch, KEPT);
    const before = nano.commands.length;
    await stepped.step(ADAM);
    await stepped.serve('a copy');
    await closed.close();
    await nano.trainer.backward(id, { dLogProbs, dEntropy: null });
    expect(nano.commands.slice(before).map(({ command }) => command.kind)).not.toContain('forward');
    await accumulate(alone);
    expect(await readGradient(nano)).toEqual(await readGradient(alone));
    await stepped.close();
  });

  it('survives a fault in the backward pass of another trainer', async () => {
    await using nano = await openNanoTrainer();
    await using alone = await openNanoTrainer();
    const other = await nano.another({ rank: 5 });
    const { batch: id } = await other.forward(batch, KEPT);
    nano.fail = ({ kind }) => (kind === 'backward' ? FAULT : null);
    await expect(other.backward(id, { dLogProbs, dEntropy: null })).rejects.toThrow(EngineLostError);
    nano.fail = () => null;
    await expect(other.zeroGrad()).rejects.toThrow(/a fault of ours/);
    expect(await train(nano, [0, 1])).toEqual(await train(alone, [0, 1]));
    await other.close();
  });

  it('refuses another trainer that would take the memory of an earlier one, and says what to do', async () => {
    const memory = new SharedMemory();
    await using nano = await openNanoTrainer({ memory, memoryBytes: 2 ** 24 });
    const rest = memory.allocate(2 ** 32 - 2 ** 26 - memory.used);
    const { used } = memory;
    // Its numbers take 60 MB of the 67 that are left, and the earlier one may need 17.
    await expect(nano.another({ rank: 256 })).rejects.toThrow(
      /leave \d+ MB for activations, but an earlier one may need 17 MB\. Choose a smaller rank.* The engine has other trainers \(1\): close one/,
    );
    await expect(nano.another({ rank: 512 })).rejects.toThrow(/can address only 4 GiB.* The engine has other trainers \(1\): close one/);
    expect(memory.used).toBe(used);
    const small = await nano.another({ rank: 1 });
    await train(nano, [0, 1]);
    await small.close();
    memory.free(rest);
    await (await nano.another({ rank: 512 })).close();
  });

  it('is unusable once a thread is lost or a backward pass failed: the gradient is unknown then', async () => {
    for (const kind of ['forward', 'backward'] as const) {
      await using nano = await openNanoTrainer();
      const { batch: id } = await nano.trainer.forward(batch, KEPT);
      nano.fail = (command) => (command.kind === kind ? new EngineLostError('a thread is gone') : null);
      const call = kind === 'forward' ? nano.trainer.forward(batch, KEPT) : nano.trainer.backward(id, { dLogProbs, dEntropy: null });
      await expect(call).rejects.toBeInstanceOf(EngineLostError);
      nano.fail = () => null;
      await expect(nano.trainer.forward(batch, KEPT)).rejects.toThrow(/gone/);
      expect(() => nano.trainer.read()).toThrow(/gone/);
    }
  });

  it('is unusable once a thread says that its backward pass failed: the others may have added theirs', async () => {
    await using nano = await openNanoTrainer();
    const { batch: id } = await nano.trainer.forward(batch, KEPT);
    nano.fail = ({ kind }, thread) => (kind === 'backward' && thread === 1 ? FAULT : null);
    await expect(nano.trainer.backward(id, { dLogProbs, dEntropy: null })).rejects.toThrow(
      /backward pass failed; load a saved state.*a fault of ours/,
    );
    await expect(nano.trainer.zeroGrad()).rejects.toThrow(EngineLostError);
  });

  it('reports a failure only when no thread writes any more: its memory may be handed out again', async () => {
    await using nano = await openNanoTrainer();
    const { promise: slow, resolve } = Promise.withResolvers<TrainingAnswer>();
    nano.fail = (_, thread) => (thread === 0 ? slow : FAULT);
    let isTold = false;
    const call = nano.trainer.forward(batch, KEPT).finally(() => (isTold = true));
    call.catch(() => {});
    await new Promise((done) => setImmediate(done));
    expect(isTold).toBe(false);
    resolve({ kind: 'done' });
    await expect(call).rejects.toThrow(EngineLostError);
  });

  it('takes no memory where it cannot be made', async () => {
    const [made, refused] = [new SharedMemory(), new SharedMemory()];
    await (await openNanoTrainer({ memory: made })).trainer.close();
    await expect(openNanoTrainer({ memory: refused, memoryBytes: 1 })).rejects.toThrow(MemoryLimitError);
    expect(refused.used).toBe(made.used);
  });

  it('takes no more memory over the steps, and hands all of it back', async () => {
    const nano = await openNanoTrainer();
    await train(nano, [0]);
    const { used } = nano.memory;
    await train(nano, [1, 2, 3, 4]);
    expect(nano.memory.used).toBe(used);
    const { byteLength } = nano.memory.memory.buffer;
    await nano.trainer.close();
    await nano.trainer.close();
    expect(nano.memory.used).toBeLessThan(used);
    expect(nano.memory.memory.buffer.byteLength).toBe(byteLength);
    await expect(nano.trainer.zeroGrad()).rejects.toThrow(/closed/);
  });
});
