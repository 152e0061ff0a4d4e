import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { EngineInputError, NotFiniteError } from '../../src/engine/engine-errors.ts';
import type { GenerateRequest } from '../../src/engine/engine-types.ts';
import { temporaryFolder, writeAdapter } from '../trainer/publisher/adapter-files.ts';
import { NANO, nanoRequest, result } from './nano-requests.ts';

const folder = temporaryFolder();
const directories = [1, 2, 3].map((seed) => join(folder.path, `adapter-${seed}`)) as [string, string, string];
const { signal } = new AbortController();
const prompt = Int32Array.from({ length: 50 }, (_, i) => 20 + i);
const request = (adapter: string | null, seed = 1): GenerateRequest =>
  nanoRequest({ prompt, adapter, sampling: { ...nanoRequest().sampling, seed }, maxTokens: 30 });

beforeAll(() => {
  for (const [i, directory] of directories.entries()) writeAdapter(directory, { seed: i + 1, b: 0.3 });
});
afterAll(() => folder.remove());

describe('ServedAdapters', () => {
  let engine: EmbeddedEngine;

  beforeEach(async () => {
    engine = await EmbeddedEngine.open({ modelPath: NANO, threads: 2, signal });
  });
  afterEach(() => engine.close());

  const load = (name: string, directory: string) => engine.loadAdapter({ name, directory, signal });
  const generated = async (adapter: string | null, seed = 1) => result(await engine.generate(request(adapter, seed)));

  it('serves several adapters at once, each with its own numbers', async () => {
    expect(await load('a', directories[0])).toEqual({ name: 'a', directory: directories[0], rank: 4, alpha: 8 });
    await load('b', directories[1]);
    expect(engine.adapters.map(({ name }) => name)).toEqual(['a', 'b']);
    const alone = [await generated('a'), await generated('b'), await generated(null)];
    expect(new Set(alone.map(({ ids }) => ids.join())).size).toBe(3);
    const together = await Promise.all([1, 2, 3, 4].flatMap(() => [generated('a'), generated('b'), generated(null)]));
    expect(together).toEqual([1, 2, 3, 4].flatMap(() => alone));
  });

  it('lets running requests finish when an adapter is unloaded, and then hands the memory back', async () => {
    const before = engine.stats().memoryBytes;
    await load('a', directories[0]);
    const expected = await generated('a');
    const running = Promise.all([1, 2, 3].map(() => generated('a')));
    expect(engine.unloadAdapter('a')).toBe(true);
    expect(engine.unloadAdapter('a')).toBe(false);
    expect(engine.adapters).toEqual([]);
    await expect(engine.generate(request('a'))).rejects.toMatchObject({ name: 'EngineInputError', code: 'not_found', param: 'model' });
    expect(engine.stats().memoryBytes).toBeGreaterThan(before);
    expect(await running).toEqual([expected, expected, expected]);
    await vi.waitFor(() => expect(engine.stats().memoryBytes).toBe(before), 10_000);
  });

  it('hands the memory back when the last request was aborted', async () => {
    const before = engine.stats().memoryBytes;
    await load('a', directories[0]);
    const stop = new AbortController();
    const running = engine.generate({ ...request('a'), signal: stop.signal, maxTokens: 2000 });
    engine.unloadAdapter('a');
    stop.abort();
    await expect(running).rejects.toThrow(CancelledError);
    await vi.waitFor(() => expect(engine.stats().memoryBytes).toBe(before), 10_000);
  });

  it('serves a reused name with the new numbers, not with prefixes of the old', async () => {
    await load('a', directories[0]);
    const old = await generated('a');
    engine.unloadAdapter('a');
    await load('a', directories[1]);
    await load('reference', directories[1]);
    const fresh = await generated('a');
    expect(fresh).not.toEqual(old);
    expect(fresh).toEqual(await generated('reference'));
  });

  it('gives right answers while adapters come and go', async () => {
    const expected = new Map<string, unknown>();
    for (const [i, directory] of directories.entries()) {
      await load(`reference-${i}`, directory);
      for (const seed of [1, 2]) expected.set(`${i} ${seed}`, await generated(`reference-${i}`, seed));
    }
    const random = Random.fromSeed(8);
    const play = async (round: number) => {
      const i = random.integer(3);
      const name = `round-${round}`;
      await load(name, directories[i]!);
      const answers = [1, 2].map(async (seed) => expect(await generated(name, seed)).toEqual(expected.get(`${i} ${seed}`)));
      engine.unloadAdapter(name);
      await Promise.all(answers);
    };
    for (let round = 0; round < 20; round += 4) await Promise.all([0, 1, 2, 3].map((more) => play(round + more)));
    expect(engine.adapters.length).toBe(3);
  });

  it('reports that an adapter makes the model overflow, and continues with the others', async () => {
    const directory = join(folder.path, 'overflowing');
    writeAdapter(directory, { b: 1e30 });
    await load('overflowing', directory);
    await load('a', directories[0]);
    const expected = await generated('a');
    const overflowing = engine.generate(request('overflowing'));
    const others = Promise.all([generated('a'), generated('a')]);
    await expect(overflowing).rejects.toThrow(NotFiniteError);
    expect(await others).toEqual([expected, expected]);
    expect(engine.stats()).toMatchObject({ requestsRunning: 0, finished: { error: 1 } });
  });

  it('refuses a name that is taken or being loaded, one that is empty, and what is not an adapter', async () => {
    const before = engine.stats().memoryBytes;
    const outcomes = await Promise.allSettled([load('a', directories[0]), load('a', directories[1])]);
    expect(outcomes).toMatchObject([{ status: 'fulfilled' }, { status: 'rejected', reason: { name: 'EngineInputError', code: 'name_taken' } }]);
    await expect(load('a', directories[1])).rejects.toMatchObject({ code: 'name_taken', param: 'lora_name' });
    await expect(load('', directories[1])).rejects.toThrow(EngineInputError);
    await expect(load('b', join(folder.path, 'none'))).rejects.toMatchObject({ code: 'not_found' });
    await expect(engine.loadAdapter({ name: 'b', directory: directories[1], signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
    engine.unloadAdapter('a');
    await vi.waitFor(() => expect(engine.stats().memoryBytes).toBe(before), 10_000);
    await load('b', directories[1]);
    expect((await generated('b')).ids.length).toBeGreaterThan(0);
  });
});
