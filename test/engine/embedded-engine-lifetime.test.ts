import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it, vi } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import type { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { EngineInputError, EngineLostError } from '../../src/engine/engine-errors.ts';
import type { EngineOptions, GenerateRequest, Generation } from '../../src/engine/engine-types.ts';
import { endlessRequest, NANO, nanoRequest, openNano, trainerOptions } from './nano-requests.ts';

/** The workers that are started meanwhile. */
async function workersOf<T>(work: () => Promise<T>): Promise<{ value: T; workers: readonly Worker[] }> {
  const workers: Worker[] = [];
  const note = (worker: Worker) => workers.push(worker);
  process.on('worker', note);
  try {
    return { value: await work(), workers };
  } finally {
    process.off('worker', note);
  }
}

const isGone = (worker: Worker) => worker.threadId === -1;

/** Resolves when a request has made its first token. */
async function started(engine: EmbeddedEngine, request: GenerateRequest): Promise<{ ended: Promise<Generation> }> {
  const first = Promise.withResolvers<void>();
  const ended = engine.generate({ ...request, onProgress: () => first.resolve() });
  ended.catch(() => {});
  await Promise.race([first.promise, ended]);
  return { ended };
}

describe('EmbeddedEngine from its start to its end', () => {
  it('rejects everything once a thread has died, and says so', async () => {
    const { value: doomed, workers } = await workersOf(() => openNano());
    expect(workers.length).toBe(2);
    const running = await Promise.all([started(doomed, endlessRequest()), started(doomed, endlessRequest({ prompt: Int32Array.of(3, 4, 5) }))]);
    await workers[1]!.terminate();
    for (const { ended } of running) await expect(ended).rejects.toThrow(EngineLostError);
    expect(await doomed.lost).toBeInstanceOf(EngineLostError);
    await expect(doomed.generate(nanoRequest())).rejects.toThrow(/Thread 1 of the embedded engine exited.*open a new engine/);
    expect(doomed.stats()).toMatchObject({ requestsRunning: 0, requestsWaiting: 0, finished: { error: 2, abort: 0 } });
    await expect(doomed.loadAdapter({ name: 'a', directory: NANO, signal: new AbortController().signal })).rejects.toThrow(EngineLostError);
    await expect(doomed.createTrainer(trainerOptions())).rejects.toThrow(EngineLostError);
    await doomed.close();
    expect(workers.every(isGone)).toBe(true);
  });

  it('closes in the middle of work, once', async () => {
    const { value: closing, workers } = await workersOf(() => openNano());
    const { ended } = await started(closing, endlessRequest());
    await Promise.all([closing.close(), closing.close()]);
    await expect(ended).rejects.toThrow(CancelledError);
    await expect(closing.generate(nanoRequest())).rejects.toThrow(CancelledError);
    expect(workers.map(isGone)).toEqual([true, true]);
    await closing.close();
    // Threads that were ended on purpose are not lost.
    const isLost = closing.lost.then(() => true);
    expect(await Promise.race([isLost, new Promise((resolve) => setImmediate(resolve, false))])).toBe(false);
  });

  it('releases everything it held once it is closed', async () => {
    const { signal } = new AbortController();
    const cycle = async () => {
      const short = await openNano({ signal });
      await short.generate(nanoRequest({ signal }));
      await short.close();
      return new WeakRef(short);
    };
    const closed = [await cycle(), await cycle(), await cycle()];
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    await vi.waitFor(() => {
      collectGarbage();
      // Numbers alone: an assertion that fails would hold on to what it shows.
      expect(closed.filter((each) => each.deref() !== undefined).length).toBe(0);
    }, 20_000);
  });

  it('leaves no thread behind when it cannot open, is stopped while it opens, or loses a thread meanwhile', async () => {
    const stop = new AbortController();
    const { workers } = await workersOf(async () => {
      await expect(openNano({ modelPath: '/nowhere' })).rejects.toMatchObject({ name: 'EngineInputError', code: 'not_found' });
      await expect(openNano({ cacheTokens: 100 })).rejects.toThrow(/A cache of 100 tokens.*2048 tokens/);
      const opening = openNano({ signal: stop.signal });
      setImmediate(() => stop.abort());
      await expect(opening).rejects.toThrow(CancelledError);
      await expect(openNano({ signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
      process.once('worker', (worker: Worker) => void worker.terminate());
      await expect(openNano()).rejects.toThrow(EngineLostError);
    });
    expect(workers.length).toBe(8);
    expect(workers.every(isGone)).toBe(true);
    expect(getEventListeners(stop.signal, 'abort')).toEqual([]);
  });

  it.each<Partial<EngineOptions>>([{ threads: 0 }, { threads: 1.5 }, { threads: 65 }, { maxPending: 0 }, { seed: 0.5 }, { maxModelLen: 4096 }])(
    'refuses to open with %j',
    async (options) => {
      await expect(openNano(options)).rejects.toThrow(EngineInputError);
    },
  );

  it('opens for training alone, without a cache', async () => {
    const training = await openNano({ cacheTokens: 0 });
    expect(training.stats()).toMatchObject({ cacheUse: 0, memoryBytes: expect.toSatisfy((bytes: number) => bytes < 8e6) });
    await expect(training.generate(nanoRequest())).rejects.toMatchObject({ name: 'EngineInputError', code: 'unsupported' });
    await training.close();
  });
});
