import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Generation } from '../../../src/engine/engine-types.ts';
import type { AdapterWeights } from '../../../src/engine/model/model-types.ts';
import { anyMoves, anyRequest, type Move, play, randomTokens } from './any-requests.ts';
import { type HistoryRunOptions, historyRun, requestOf, type RequestParts, VOCABULARY, WORDS } from './sampler-run.ts';

const adapter = (id: number): AdapterWeights => ({ id, paddedRank: 8, layers: [] });

const tokens = (seed: number, length: number) => randomTokens(seed, length, VOCABULARY);
const kinds = { vocabularySize: VOCABULARY, adapters: [adapter(1), adapter(2)] };

const anyRoom: fc.Arbitrary<HistoryRunOptions> = fc.record({
  blocks: fc.constantFrom(8, 8, 9, 12, 100),
  limits: fc.record({ rows: fc.integer({ min: 1, max: 80 }), logitRows: fc.integer({ min: 1, max: 5 }) }),
});

/** Requests of one prompt, the second of which finds it in the cache, and which have no room for all of their answers at the same time. */
const crowded: [HistoryRunOptions, readonly Move[]] = [
  { blocks: 8, limits: { rows: 80, logitRows: 5 } },
  [0, 1, 2].flatMap((id) => [requestOf({ id, prompt: tokens(1, 50), maxTokens: 60, stop: { ignoreEnd: true } }), 'step' as const, 'step' as const]),
];

/** Everything but how much was in the cache. */
const essence = (generation: Generation) => ({ ...generation, cachedTokens: 0 });

describe('BatchSampler', () => {
  it('gives a request the same tokens, text and log-probs whatever else runs, comes and goes, and however little room there is {alone = among others}', () => {
    let preemptions = 0;
    let cached = 0;
    fc.assert(
      fc.property(anyRoom, anyMoves(kinds), (room, moves) => {
        const run = historyRun(room);
        const requests = play(run, moves);
        expect(run.failures.size).toBe(0);
        expect(run.sampler.stats).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 });
        preemptions += run.sampler.stats.preemptions;
        cached += run.sampler.stats.cachedTokens;
        for (const request of requests) {
          const alone = historyRun().add(request).finish().generation(request.id);
          expect(essence(run.generation(request.id))).toEqual(essence(alone));
        }
      }),
      { numRuns: 50, examples: [crowded] },
    );
    // Otherwise none of this was tried.
    expect(preemptions).toBeGreaterThan(0);
    expect(cached).toBeGreaterThan(0);
  });

  it('takes the likeliest token of the whole history at temperature 0', () => {
    const run = historyRun({ limits: { rows: 7 } });
    const prompt = tokens(3, 40);
    run.add(requestOf({ id: 1, prompt, maxTokens: 20, adapter: adapter(4), stop: { ignoreEnd: true } })).finish();
    const history = [...prompt];
    for (const id of run.generation(1).ids) {
      const logits = run.pass.logitsAfter(4, history).subarray(0, VOCABULARY);
      expect(id).toBe(logits.indexOf(Math.max(...logits)));
      history.push(id);
    }
    expect(history).toHaveLength(60);
  });

  it('computes the last token of a prompt that is all in the cache', () => {
    const run = historyRun();
    const prompt = tokens(1, 64);
    run.add(requestOf({ id: 1, prompt })).finish();
    run.add(requestOf({ id: 2, prompt })).finish();
    expect(run.generation(2).cachedTokens).toBe(48);
    expect(run.generation(2).ids).toEqual(run.generation(1).ids);
  });

  it('finds the answer of one turn in the cache of the next', () => {
    const run = historyRun();
    const prompt = tokens(1, 30);
    const { ids } = run
      .add(requestOf({ id: 1, prompt, maxTokens: 40, stop: { ignoreEnd: true } }))
      .finish()
      .generation(1);
    run.add(requestOf({ id: 2, prompt: Int32Array.from([...prompt, ...ids, ...tokens(9, 5)]) })).finish();
    // Of 70 tokens the last was never computed.
    expect(run.generation(2).cachedTokens).toBe(64);
  });

  it('shares nothing between adapters or salts', () => {
    const run = historyRun();
    const prompt = tokens(1, 64);
    const scopes = [{}, { adapter: adapter(1) }, { cacheSalt: 'a' }, { cacheSalt: '' }, { adapter: adapter(1), cacheSalt: 'a' }];
    for (const [id, scope] of scopes.entries()) run.add(requestOf({ id, prompt, ...scope })).finish();
    for (const id of scopes.keys()) expect(run.generation(id).cachedTokens).toBe(0);
    for (const [id, scope] of scopes.entries()) run.add(requestOf({ id: 10 + id, prompt, ...scope })).finish();
    for (const id of scopes.keys()) expect(run.generation(10 + id).cachedTokens).toBe(48);
  });

  it('fails only the request whose logits are not finite, and keeps nothing of it', () => {
    const run = historyRun();
    run.pass.poison = 5;
    const clean = Array.from({ length: 40 }, (_, i) => 6 + (i % 20));
    const bad = requestOf({ id: 1, prompt: Int32Array.from([...clean.slice(0, 32), 5, ...clean]), maxTokens: 3 });
    const good = requestOf({ id: 2, prompt: Int32Array.from(clean), maxTokens: 3, allowedTokenIds: [7, 8] });
    run.add(bad, good).finish();
    expect(run.failures.get(1)).toMatchObject({ code: 'not_finite' });
    expect(run.generation(2).ids).toHaveLength(3);
    expect(run.sampler.stats.blocksUsed).toBe(0);
    run.pass.poison = -1;
    run.add({ ...bad, id: 3 }).finish();
    expect(run.generation(3).cachedTokens).toBe(0);
  });

  it('fails a request for a prompt that cannot be scored', () => {
    const run = historyRun();
    run.pass.poison = 5;
    run
      .add(
        requestOf({ id: 1, prompt: Int32Array.of(6, 5, 6), promptLogProbs: 0 }),
        requestOf({ id: 2, prompt: Int32Array.of(6), allowedTokenIds: [7] }),
      )
      .finish();
    expect([...run.failures.keys()]).toEqual([1]);
    expect([...run.generations.keys()]).toEqual([2]);
  });

  it('fails the requests of a pass that broke and continues with others', () => {
    const run = historyRun({ limits: { rows: 4 } });
    const requests = Array.from({ length: 6 }, (_, id) => requestOf({ id, prompt: tokens(id, 20), maxTokens: 2 }));
    run.add(...requests);
    run.sampler.step();
    run.pass.breaks = true;
    run.finish();
    expect([...run.failures]).toEqual([[0, { code: 'internal', message: 'the pass broke', cause: expect.any(Error) }]]);
    expect([...run.generations.keys()].toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5]);
    expect(run.sampler.stats.blocksUsed).toBe(0);
  });

  it('reports nothing of a request that was aborted, even between the events of one step', () => {
    const run = historyRun();
    for (let id = 0; id < 4; id++) run.add(requestOf({ id, prompt: tokens(id, 5), maxTokens: 2, streams: true }));
    run.onEvent = (id) => {
      if (id === 0) for (const other of [1, 2, 3]) run.sampler.abort(other);
    };
    run.finish();
    expect([...run.generations.keys()]).toEqual([0]);
    expect([...run.deltas.keys()]).toEqual([0]);
    run.sampler.abort(77);
    expect(run.sampler.stats.blocksUsed).toBe(0);
  });

  it('accepts requests from within its events', () => {
    const run = historyRun();
    run.add(requestOf({ id: 0, prompt: tokens(0, 5), maxTokens: 2 }));
    run.onEvent = (id) => id < 5 && run.add(requestOf({ id: id + 1, prompt: tokens(id + 1, 5), maxTokens: 2 }));
    run.finish();
    expect([...run.generations.keys()]).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('streams what it returns in the end {deltas joined = the whole}', () => {
    fc.assert(
      fc.property(fc.array(anyRequest(kinds), { minLength: 1, maxLength: 4 }), (parts) => {
        const run = historyRun({ blocks: 10 });
        run.add(...parts.map((part, id) => ({ ...part, id, streams: true }))).finish();
        for (const id of parts.keys()) {
          const whole = run.generation(id);
          const deltas = run.deltas.get(id)!;
          expect(deltas.map(({ text }) => text).join('')).toBe(whole.text);
          expect(deltas.flatMap(({ ids }) => [...ids])).toEqual([...whole.ids]);
          expect(deltas.flatMap(({ logProbs }) => [...logProbs])).toEqual([...whole.logProbs]);
          expect(deltas.flatMap(({ alternatives }) => alternatives ?? [])).toEqual(whole.alternatives ?? []);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('draws for a request without a seed by its place in the order of arrival', () => {
    const ids = (seed: number, room: HistoryRunOptions) => {
      const run = historyRun({ seed, ...room });
      for (let id = 0; id < 5; id++) run.add(requestOf({ id, prompt: tokens(0, 5), sampling: { temperature: 1 } }));
      run.finish();
      return Array.from({ length: 5 }, (_, id) => run.generation(id).ids.join(' '));
    };
    expect(ids(1, {})).toEqual(ids(1, { blocks: 8, limits: { rows: 2 } }));
    expect(ids(1, {})).not.toEqual(ids(2, {}));
    expect(new Set(ids(1, {})).size).toBe(5);
  });

  it('scores each token of a prompt, without reading the cache', () => {
    const prompt = tokens(1, 50);
    const run = historyRun({ limits: { rows: 13, logitRows: 2 } });
    run.add(requestOf({ id: 1, prompt })).finish();
    run.add(requestOf({ id: 2, prompt, promptLogProbs: 2 })).finish();
    const { promptLogProbs, cachedTokens, ids } = run.generation(2);
    expect(cachedTokens).toBe(0);
    expect(ids).toEqual(run.generation(1).ids);
    expect(promptLogProbs).toHaveLength(50);
    expect(promptLogProbs![0]).toBeNull();
    for (let i = 1; i < 50; i++) {
      const logits = [...run.pass.logitsAfter(0, [...prompt.subarray(0, i)]).subarray(0, VOCABULARY)];
      const logSum = Math.log(logits.reduce((sum, x) => sum + Math.exp(x), 0));
      const order = logits.map((_, id) => id).toSorted((a, b) => logits[b]! - logits[a]!);
      const [own, ...best] = promptLogProbs![i]!;
      expect(own).toMatchObject({ id: prompt[i], rank: 1 + order.indexOf(prompt[i]!) });
      expect(own!.logProb).toBeCloseTo(logits[prompt[i]!]! - logSum, 5);
      expect(best.map(({ id, rank }) => [id, rank])).toEqual([
        [order[0], 1],
        [order[1], 2],
      ]);
    }
  });

  describe('stops', () => {
    const prompt = Int32Array.from([...tokens(7, 20), 2]);
    const stopped = (parts: Partial<RequestParts>) =>
      historyRun()
        .add(requestOf({ id: 0, prompt, maxTokens: 12, ...parts }))
        .finish()
        .generation(0);
    const free = stopped({ stop: { ignoreEnd: true } });
    const word = (id: number) => new TextDecoder().decode(WORDS.bytes.subarray(WORDS.starts[id], WORDS.starts[id + 1]));

    it('at a stop id, whose text is part of the answer where stop strings are', () => {
      const id = free.ids[4]!;
      const at = free.ids.indexOf(id);
      for (const includeString of [true, false]) {
        const found = stopped({ stop: { tokenIds: [1, id], includeString, ignoreEnd: true } });
        expect(found).toMatchObject({ finish: 'stop', stopReason: id, ids: free.ids.slice(0, at + 1) });
        const shown = [...free.ids.subarray(0, includeString ? at + 1 : at)].map(word).join('');
        // A tail that forms no character is left out.
        expect(found.text).toBe(shown.replace(/\uFFFD+$/, ''));
        expect(found.textOffsets).toHaveLength(at + 1);
      }
    });

    it('at an end token without a reason, at the same one as a stop id with it', () => {
      const end = { allowedTokenIds: [0] };
      expect(stopped(end)).toMatchObject({ finish: 'stop', stopReason: null, ids: Int32Array.of(0), text: '' });
      expect(stopped({ ...end, stop: { tokenIds: [0] } })).toMatchObject({ finish: 'stop', stopReason: null });
      expect(stopped({ ...end, stop: { tokenIds: [0], ignoreEnd: true } })).toMatchObject({ finish: 'stop', stopReason: 0 });
      expect(stopped({ ...end, stop: { ignoreEnd: true } })).toMatchObject({ finish: 'length', stopReason: null, text: '' });
      expect(stopped({ ...end, skipSpecialTokens: false })).toMatchObject({ text: '<end>' });
      expect(stopped({ ...end, skipSpecialTokens: false, stop: { includeString: false } })).toMatchObject({ text: '' });
    });

    it('at a stop string, also where the token is an end or the last one that fits', () => {
      const strings = ['<end>'];
      const end = { allowedTokenIds: [0], skipSpecialTokens: false, maxTokens: 1 };
      expect(stopped({ ...end, stop: { strings } })).toMatchObject({ finish: 'stop', stopReason: '<end>', text: '<end>' });
      expect(stopped({ ...end, stop: { strings, ignoreEnd: true, includeString: false } })).toMatchObject({
        finish: 'stop',
        stopReason: '<end>',
        text: '',
      });
      // Its text is hidden then: nothing to match.
      expect(stopped({ ...end, stop: { strings, includeString: false } })).toMatchObject({ finish: 'stop', stopReason: null, text: '' });
    });

    it('at no stop string within minTokens, and not at the length before it', () => {
      const forced = { allowedTokenIds: [2], maxTokens: 6, stop: { strings: ['a'], minTokens: 3 } };
      expect(stopped(forced)).toMatchObject({ finish: 'stop', stopReason: 'a', text: 'aaaa' });
    });

    it('inside a token: its id stays whole, its tail is not text', () => {
      const forced = { allowedTokenIds: [17], stop: { strings: ['to'] } };
      expect(stopped(forced)).toMatchObject({
        stopReason: 'to',
        ids: Int32Array.of(17),
        text: 'sto',
        logProbs: Float32Array.of(stopped(forced).logProbs[0]!),
      });
      expect(stopped({ ...forced, stop: { strings: ['ops'], includeString: false } })).toMatchObject({ ids: Int32Array.of(17, 17), text: 'st' });
    });
  });

  it('gives the character that the prompt began, and none that is unfinished', () => {
    const prompt = Int32Array.from([...tokens(7, 20), 2, 25]);
    const run = historyRun();
    run.add(requestOf({ id: 1, prompt, maxTokens: 1, allowedTokenIds: [26] }), requestOf({ id: 2, prompt, maxTokens: 1, allowedTokenIds: [25] }));
    run.finish();
    expect(run.generation(1)).toMatchObject({ ids: Int32Array.of(26), text: 'é', textOffsets: Int32Array.of(0) });
    expect(run.generation(2)).toMatchObject({ ids: Int32Array.of(25), text: '' });
  });

  it('stops for length at maxTokens and at the window, whichever is nearer', () => {
    const run = historyRun({ maxModelLen: 32 });
    const prompt = tokens(1, 20);
    run.add(requestOf({ id: 1, prompt, maxTokens: 100, stop: { ignoreEnd: true } }), requestOf({ id: 2, prompt, maxTokens: 1 })).finish();
    expect(run.generation(1)).toMatchObject({ finish: 'length', stopReason: null });
    expect(run.generation(1).ids).toHaveLength(12);
    expect(run.generation(2).ids).toHaveLength(1);
  });

  it('refuses a cache that the longest request does not fit', () => {
    expect(() => historyRun({ blocks: 7, maxModelLen: 128 })).toThrow(RangeError);
    expect(() => historyRun({ blocks: 8, maxModelLen: 128 })).not.toThrow();
  });

  it('forgets the prefixes of an adapter that is gone, also while one still runs', () => {
    const run = historyRun();
    const prompt = tokens(1, 40);
    run.add(requestOf({ id: 1, prompt, adapter: adapter(1), maxTokens: 60, stop: { ignoreEnd: true } }));
    run.sampler.step();
    run.sampler.forgetAdapter(1);
    run.finish();
    run.add(requestOf({ id: 2, prompt, adapter: adapter(1) })).finish();
    expect(run.generation(2).cachedTokens).toBe(0);
    run.sampler.forgetAdapter(1);
    run.sampler.forgetAdapter(3);
    expect(run.sampler.stats.blocksUsed).toBe(0);
  });
});
