import { describe, expect, it } from 'vitest';
import type { Generation } from '../../../src/engine/engine-types.ts';
import type { AdapterWeights } from '../../../src/engine/model/model-types.ts';
import { randomTokens } from './any-requests.ts';
import { historyRun, requestOf, VOCABULARY } from './sampler-run.ts';

const adapter = (id: number): AdapterWeights => ({ id, paddedRank: 8, layers: [] });
const tokens = (seed: number, length: number) => randomTokens(seed, length, VOCABULARY);
/** Everything but how much was in the cache. */
const essence = (generation: Generation) => ({ ...generation, cachedTokens: 0 });

describe('Scheduler', () => {
  it('computes a prompt that several requests share once, when they come together', () => {
    const prompt = tokens(1, 70);
    const run = historyRun({ limits: { rows: 200 } });
    for (let id = 0; id < 8; id++) run.add(requestOf({ id, prompt, maxTokens: 1, sampling: { temperature: 1, seed: id } }));
    run.finish();
    expect(Array.from({ length: 8 }, (_, id) => run.generation(id).cachedTokens)).toEqual([0, 64, 64, 64, 64, 64, 64, 64]);
    expect(run.pass.computed).toBe(70 + 7 * 6);
    // The seven wait for one pass.
    expect(run.pass.passes).toHaveLength(2);
    expect(run.sampler.stats).toMatchObject({ promptTokens: 560, cachedTokens: 448 });
  });

  it('makes no request wait for a prefix that it may not share', () => {
    const prompt = tokens(1, 40);
    const run = historyRun({ limits: { rows: 200 } });
    run.add(requestOf({ id: 0, prompt }), requestOf({ id: 1, prompt, cacheSalt: 'a' }), requestOf({ id: 2, prompt, adapter: adapter(1) }));
    // Nor for less than a block, nor for its last token alone.
    run.add(requestOf({ id: 3, prompt: prompt.with(15, 1) }), requestOf({ id: 4, prompt: prompt.slice(0, 16) }));
    // Nor for tokens that are still to come.
    run.add(requestOf({ id: 5, prompt: new Int32Array(10) }), requestOf({ id: 6, prompt: new Int32Array(40) }));
    run.sampler.step();
    expect(run.pass.passes[0]).toHaveLength(7);
  });

  it('continues to generate for others while a long prompt is read', () => {
    const run = historyRun({ limits: { rows: 16 } });
    for (let id = 0; id < 4; id++) run.add(requestOf({ id, prompt: tokens(id, 3), maxTokens: 30, stop: { ignoreEnd: true } }));
    run.sampler.step();
    run.add(requestOf({ id: 9, prompt: tokens(50, 100) }));
    run.finish();
    const reading = run.pass.passes.filter((segments) => segments.some(({ count, past }) => count > 1 && past > 0));
    expect(reading.length).toBeGreaterThan(5);
    for (const segments of reading) expect(segments.filter(({ count }) => count === 1)).toHaveLength(4);
  });

  it('restarts the youngest when blocks run out, and finishes all', () => {
    const alone = historyRun();
    const run = historyRun({ blocks: 8 });
    const requests = Array.from({ length: 6 }, (_, id) =>
      requestOf({ id, prompt: tokens(id, 10), maxTokens: 100, sampling: { temperature: 1, seed: id }, stop: { ignoreEnd: true } }),
    );
    run.add(...requests).finish();
    alone.add(...requests).finish();
    expect(run.sampler.stats.preemptions).toBeGreaterThan(2);
    expect(alone.sampler.stats.preemptions).toBe(0);
    for (const { id } of requests) expect(essence(run.generation(id))).toEqual(essence(alone.generation(id)));
    // No younger request ends before the oldest, which never makes room.
    expect([...run.generations.keys()][0]).toBe(0);
  });

  it('resumes scoring where it was after a prompt had to make room', () => {
    const request = requestOf({ id: 2, prompt: tokens(2, 100), promptLogProbs: 1 });
    const others = [0, 1].map((id) => requestOf({ id, prompt: tokens(id, 10), maxTokens: 60, stop: { ignoreEnd: true } }));
    const alone = historyRun().add(request).finish().generation(2);
    let again = 0;
    for (const rows of [3, 4, 5, 6]) {
      const run = historyRun({ blocks: 11, limits: { rows } })
        .add(...others, request)
        .finish();
      const pieces = run.pass.passes.flat();
      // Rows without logits: those of tokens that were scored before.
      for (const { logits, count } of pieces) again += logits === 'none' ? count : 0;
      // Each token of the prompt once; the last one may be a piece of its own.
      expect([99, 100]).toContain(pieces.reduce((sum, { logits, count }) => sum + (logits === 'all' ? count : 0), 0));
      expect(essence(run.generation(2))).toEqual(essence(alone));
    }
    expect(again).toBeGreaterThan(50);
  });

  it('admits no request that would have to make room at once', () => {
    // Two of them fill the cache but for one block, and each needs its next one within a few tokens.
    const run = historyRun({ blocks: 9 });
    for (let id = 0; id < 3; id++) run.add(requestOf({ id, prompt: tokens(id, 46), maxTokens: 10, stop: { ignoreEnd: true } }));
    run.finish();
    expect(run.sampler.stats.preemptions).toBe(0);
  });
});
