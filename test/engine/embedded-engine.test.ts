import { getEventListeners } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import type { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { EngineBusyError, EngineInputError } from '../../src/engine/engine-errors.ts';
import type { EngineOptions, Generation } from '../../src/engine/engine-types.ts';
import { endlessRequest, mixedRequests, NANO_VOCABULARY, nanoRequest, openNano, result, trainerOptions } from './nano-requests.ts';

describe('EmbeddedEngine', () => {
  let engine: EmbeddedEngine;
  const requests = mixedRequests(16, 7);
  let alone: Generation[];

  beforeAll(async () => {
    engine = await openNano({ threads: 1 });
    alone = [];
    for (const request of requests) alone.push(await engine.generate(request));
  });
  afterAll(() => engine.close());

  it('says what it is', () => {
    expect(engine.description).toMatch(/^embedded engine, (relaxed|plain) SIMD, 1 thread, 992,640 parameters$/);
    expect(engine.maxModelLen).toBe(2048);
    expect(engine.config.vocabularySize).toBe(NANO_VOCABULARY);
    expect(engine.tokenizer.decode(engine.tokenizer.encode('a question', { addSpecialTokens: false }), { skipSpecialTokens: true })).toBe(
      'a question',
    );
  });

  it.each([1, 2, 3])('gives seeded requests the same tokens and log-probs alone and together on %i threads', async (threads) => {
    const several = await openNano({ threads });
    const together = await Promise.all(requests.map((request) => several.generate(request)));
    await several.close();
    expect(together.map(result)).toEqual(alone.map(result));
  });

  it('gives them the same even when there is so little room that they have to give way to one another', async () => {
    const narrow = await openNano({ threads: 1, maxModelLen: 256, cacheTokens: 256 });
    const together = await Promise.all(requests.map((request) => narrow.generate(request)));
    expect(narrow.stats().preemptions).toBeGreaterThan(0);
    await narrow.close();
    expect(together.map(result)).toEqual(alone.map(result));
  });

  it('draws for requests without a seed from its own stream, in the order they come, whatever the threads', async () => {
    const drawn = async (options: Partial<EngineOptions>) => {
      const fresh = await openNano(options);
      const unseeded = requests.slice(0, 6).map((request) => ({ ...request, sampling: { ...request.sampling, temperature: 1, seed: null } }));
      const ids = (await Promise.all(unseeded.map((request) => fresh.generate(request)))).map((generation) => generation.ids);
      await fresh.close();
      return ids;
    };
    const ids = await drawn({ threads: 1, seed: 5 });
    expect(await drawn({ threads: 3, seed: 5 })).toEqual(ids);
    expect(await drawn({ threads: 1, seed: 6 })).not.toEqual(ids);
  });

  it('streams what it returns', async () => {
    const parts: { ids: number[]; text: string; logProbs: number[] } = { ids: [], text: '', logProbs: [] };
    const generation = await engine.generate({
      ...requests[1]!,
      onProgress: ({ ids, text, logProbs }) => {
        parts.ids.push(...ids);
        parts.text += text;
        parts.logProbs.push(...logProbs);
      },
    });
    expect(parts.ids).toEqual([...generation.ids]);
    expect(parts.text).toBe(generation.text);
    expect(parts.logProbs).toEqual([...generation.logProbs]);
  });

  it('accepts a prompt that is a window into a larger buffer', async () => {
    const { prompt } = requests[0]!;
    const buffer = new Int32Array(prompt.length + 200);
    buffer.set(prompt, 100);
    const generation = await engine.generate({ ...requests[0]!, prompt: buffer.subarray(100, 100 + prompt.length) });
    expect(result(generation)).toEqual(result(alone[0]!));
  });

  it('refuses impossible requests before they run, and an adapter that does not exist', async () => {
    const before = engine.stats();
    await expect(engine.generate(nanoRequest({ prompt: Int32Array.of(NANO_VOCABULARY) }))).rejects.toThrow(EngineInputError);
    await expect(engine.generate(nanoRequest({ adapter: 'none' }))).rejects.toMatchObject({ code: 'not_found', param: 'model' });
    expect(engine.stats()).toEqual(before);
  });

  it('ends a request at once when it is aborted, and leaves nothing behind', async () => {
    const several = await openNano();
    const random = Random.fromSeed(3);
    const signal = new AbortController();
    const outcomes = await Promise.allSettled(
      requests.flatMap((request, i) => {
        const stop = new AbortController();
        let left = random.integer(12);
        const aborted = several.generate({
          ...endlessRequest({ prompt: request.prompt }),
          signal: stop.signal,
          onProgress: () => {
            if (left-- === 0) stop.abort();
          },
        });
        if (i % 8 === 0) setImmediate(() => stop.abort());
        return [several.generate({ ...request, signal: signal.signal }), aborted];
      }),
    );
    const finished = outcomes.filter((outcome) => outcome.status === 'fulfilled');
    expect(finished.map(({ value }) => result(value))).toEqual(alone.map(result));
    const reasons = outcomes.filter((outcome) => outcome.status === 'rejected').map(({ reason }): unknown => reason);
    expect(reasons).toEqual(requests.map(() => expect.any(CancelledError)));
    expect(getEventListeners(signal.signal, 'abort')).toEqual([]);
    // One more through each thread, so that both have taken the last abort.
    await Promise.all([several.generate(nanoRequest()), several.generate(nanoRequest({ prompt: Int32Array.of(9) }))]);
    expect(several.stats()).toMatchObject({ requestsRunning: 0, requestsWaiting: 0, cacheUse: 0, finished: { abort: requests.length, error: 0 } });
    await expect(several.generate(nanoRequest({ signal: AbortSignal.abort() }))).rejects.toThrow(CancelledError);
    await several.close();
  });

  it('passes a failure of a listener to the request that brought it', async () => {
    const broken = new Error('the listener is broken');
    const failing = engine.generate({
      ...requests[2]!,
      maxTokens: 40,
      onProgress: () => {
        throw broken;
      },
    });
    const other = engine.generate(requests[1]!);
    await expect(failing).rejects.toBe(broken);
    expect(result(await other)).toEqual(result(alone[1]!));
  });

  it('refuses more requests than it has places for, and accepts them again later', async () => {
    const small = await openNano({ threads: 1, maxPending: 2 });
    const stop = new AbortController();
    const running = [1, 2].map((seed) => small.generate(endlessRequest({ signal: stop.signal, sampling: { ...nanoRequest().sampling, seed } })));
    await expect(small.generate(nanoRequest())).rejects.toMatchObject({ name: 'EngineBusyError', retryable: true });
    await expect(small.generate(nanoRequest())).rejects.toThrow(EngineBusyError);
    stop.abort();
    expect((await Promise.allSettled(running)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect((await small.generate(nanoRequest())).ids.length).toBeGreaterThan(0);
    await small.close();
  });

  it('sends the next turn of a conversation to the thread that has its beginning', async () => {
    const several = await openNano({ threads: 3 });
    const random = Random.fromSeed(1);
    const fresh = (length: number) => Array.from({ length }, () => random.integer(1500));
    const conversation = async () => {
      let prompt = Int32Array.from(fresh(100));
      const cached: number[] = [];
      for (let turn = 0; turn < 4; turn++) {
        const { ids, cachedTokens } = await several.generate(nanoRequest({ prompt, maxTokens: 20 }));
        cached.push(cachedTokens);
        prompt = Int32Array.from([...prompt, ...ids, ...fresh(10)]);
      }
      return cached;
    };
    const later = (await Promise.all([1, 2, 3, 4].map(conversation))).flatMap((cached) => cached.slice(1));
    await several.close();
    expect(later.length).toBe(12);
    for (const cached of later) expect(cached).toBeGreaterThanOrEqual(96);
  });

  it('counts what it does', async () => {
    const counting = await openNano();
    const generations = await Promise.all(requests.map((request) => counting.generate(request)));
    const tokens = (of: (generation: Generation, i: number) => number) => generations.reduce((sum, each, i) => sum + of(each, i), 0);
    expect(counting.stats()).toMatchObject({
      threads: 2,
      requestsRunning: 0,
      requestsWaiting: 0,
      cacheUse: 0,
      promptTokens: tokens((_, i) => requests[i]!.prompt.length),
      cachedTokens: tokens(({ cachedTokens }) => cachedTokens),
      generatedTokens: tokens(({ ids }) => ids.length),
      finished: {
        stop: tokens(({ finish }) => Number(finish === 'stop')),
        length: tokens(({ finish }) => Number(finish === 'length')),
        abort: 0,
        error: 0,
      },
      preemptions: 0,
    });
    await counting.close();
  });

  it('trains with the log-probs that it samples, bit for bit, while it samples', async () => {
    const both = await openNano();
    const trainer = await both.createTrainer(trainerOptions());
    const sampled = await Promise.all(requests.map((request) => both.generate(nanoRequest({ prompt: request.prompt, maxTokens: 20 }))));
    const rows = sampled.map(({ ids }, i) => [...requests[i]!.prompt, ...ids]);
    const ends = rows.map(
      (
        (end) => (row: number[]) =>
          (end += row.length)
      )(0),
    );
    const targets = ends.flatMap((end, i) => Array.from(sampled[i]!.ids, (_, j) => end - sampled[i]!.ids.length + j));
    const batch = { ids: Int32Array.from(rows.flat()), offsets: Int32Array.from([0, ...ends]), targets: Int32Array.from(targets), temperature: 1 };
    const [trained] = await Promise.all([
      trainer.forward(batch, { adapter: 'on', retain: false, entropy: false }),
      both.generate(requests[0]!).then((generation) => expect(result(generation)).toEqual(result(alone[0]!))),
    ]);
    expect([...trained.logProbs]).toEqual(sampled.flatMap(({ logProbs }) => [...logProbs]));
    await trainer.close();
    const next = await both.createTrainer(trainerOptions());
    await both.close();
    await expect(next.forward(batch, { adapter: 'on', retain: false, entropy: false })).rejects.toThrow(CancelledError);
    await next.close();
  });

  it('allows another trainer after one that could not be made', async () => {
    await expect(engine.createTrainer({ ...trainerOptions(), rank: 0 })).rejects.toThrow(EngineInputError);
    const trainer = await engine.createTrainer(trainerOptions());
    expect(trainer.modules.length).toBe(28);
    await trainer.close();
  });
});
