import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError } from '../../../src/core/errors.ts';
import type { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { EngineLostError } from '../../../src/engine/engine-errors.ts';
import type { Generation } from '../../../src/engine/engine-types.ts';
import type { AdapterWeights } from '../../../src/engine/model/model-types.ts';
import { nodeHost } from '../../../src/engine/node-host.ts';
import { type EngineParts, openParts } from '../../../src/engine/open-parts.ts';
import type { PoolRequest, ThreadPool } from '../../../src/engine/threads/thread-pool.ts';
import { NANO, nanoRequest } from '../nano-requests.ts';

function poolRequest(prompt: Int32Array, maxTokens: number, adapter: AdapterWeights | null = null): PoolRequest {
  const { signal, onProgress: _, adapter: __, ...request } = nanoRequest({ prompt, maxTokens });
  return { request: { ...request, stop: { ...request.stop, ignoreEnd: true }, adapter }, signal, onProgress: null };
}

const prompt = (first: number, length: number) => Int32Array.from({ length }, (_, i) => (first * 37 + i) % 1500);

describe('ThreadPool', () => {
  let parts: EngineParts;
  let pool: ThreadPool;
  let memory: SharedMemory;

  beforeEach(async () => {
    parts = await openParts(nodeHost, { modelPath: NANO, threads: 2, signal: new AbortController().signal });
    ({ pool, memory } = parts);
  });
  afterEach(() => pool.close());

  it('computes the prompt of a group once', async () => {
    const groups = await Promise.all(
      [0, 1, 2, 3].map((group) => Promise.all(Array.from({ length: 8 }, () => pool.generate(poolRequest(prompt(group, 200), 16))))),
    );
    const computed = (group: readonly Generation[]) => group.filter(({ cachedTokens }) => cachedTokens === 0).length;
    expect(groups.map(computed)).toEqual([1, 1, 1, 1]);
  });

  it('knows where the answers of earlier turns are, not only the prompts', async () => {
    const first = poolRequest(prompt(0, 20), 100);
    const { ids } = await pool.generate(first);
    // It goes to the same thread, the first of two that have nothing to do, and makes the other the better one for all but the next turn.
    const other = pool.generate(poolRequest(prompt(1, 20), 2000));
    const next = await pool.generate(poolRequest(Int32Array.from([...first.request.prompt, ...ids]), 1));
    expect(next.cachedTokens).toBe(112);
    await Promise.all([expect(other).rejects.toThrow(CancelledError), pool.close()]);
  });

  it('leaves the thread that has the prompt where the other has much less to do', async () => {
    const short = prompt(1, 33);
    await pool.generate(poolRequest(short, 1));
    const all = await Promise.all(Array.from({ length: 12 }, () => pool.generate(poolRequest(short, 60))));
    // Once on the other thread, from where the rest share it.
    expect(all.filter(({ cachedTokens }) => cachedTokens === 0).length).toBe(1);
  });

  it('answers commands of training between steps of the sampler, in order', async () => {
    const { pointer } = memory.allocate(64);
    const numbers = new Float32Array(memory.memory.buffer, pointer, 8).fill(2);
    const sampled = pool.generate(poolRequest(prompt(0, 20), 200));
    const sums = await Promise.all([4, 8].map((count) => pool.callTraining(0, { kind: 'sum', pointers: [pointer], count })));
    expect(sums).toEqual([
      { kind: 'sum-of-squares', value: 16 },
      { kind: 'sum-of-squares', value: 32 },
    ]);
    expect(numbers[0]).toBe(2);
    expect((await sampled).ids.length).toBe(200);
  });

  it('is lost when a kernel reaches beyond the memory', async () => {
    const beyond = { pointer: 2 ** 32 - 65536, inputs: 128, outputs: 8 };
    const broken: AdapterWeights = {
      id: 9,
      paddedRank: 8,
      layers: [{ o_proj: { a: beyond, b: { ...beyond, inputs: 8, outputs: 128 } } }, {}, {}, {}],
    };
    const other = pool.generate(poolRequest(prompt(0, 20), 2000));
    const doomed = pool.generate(poolRequest(prompt(1, 20), 4, broken));
    await expect(doomed).rejects.toThrow(/memory access out of bounds/);
    await expect(other).rejects.toThrow(EngineLostError);
    expect(await pool.lost).toBeInstanceOf(EngineLostError);
    await expect(pool.callTraining(0, { kind: 'sum', pointers: [], count: 0 })).rejects.toThrow(EngineLostError);
    await expect(pool.forgetAdapter(9)).rejects.toThrow(EngineLostError);
    expect(pool.pending).toBe(0);
  });

  it('rejects what waits for an adapter to be forgotten when it is closed', async () => {
    const forgotten = pool.forgetAdapter(9);
    await Promise.all([expect(forgotten).rejects.toThrow(CancelledError), pool.close()]);
  });

  it('forgets the prefixes of an adapter once all threads say so', async () => {
    const request = poolRequest(prompt(0, 100), 1);
    await pool.generate(request);
    expect((await pool.generate(request)).cachedTokens).toBe(96);
    await pool.forgetAdapter(0);
    expect((await pool.generate(request)).cachedTokens).toBe(0);
  });
});
