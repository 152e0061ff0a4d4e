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

  it('makes nobody wait for a prefix that it may not share', () => {
    const prompt = tokens(1, 40);
    const run = historyRun({ limits: { rows: 200 } });
    run.add(requestOf({ id: 0, prompt }), requestOf({ id: 1, prompt, cacheSalt: 'a' }), requestOf({ id: 2, prompt, adapter: adapter(1) }));
    // Nor for less than a block, nor for its last token alone.
    run.add(requestOf({ id: 3, prompt: prompt.with(15, 1) }), requestOf({ id: 4, prompt: prompt.slice(0, 16) }));
    run.sampler.step();
    expect(run.pass.passes[0]).toHaveLength(5);
  });

  it('lets one that waits for a prefix go on when its writer is gone', () => {
    const prompt = tokens(1, 100);
    const run = historyRun({ limits: { rows: 10 } });
    run.add(requestOf({ id: 0, prompt }), requestOf({ id: 1, prompt }));
    for (let i = 0; i < 4; i++) run.sampler.step();
    run.sampler.abort(0);
    run.finish();
    expect(run.generation(1).cachedTokens).toBe(32);
    expect(run.pass.computed).toBe(40 + 68 + 7);
  });

  it('goes on with those that generate while a long prompt is read', () => {
    const run = historyRun({ limits: { rows: 16 } });
    for (let id = 0; id < 4; id++) run.add(requestOf({ id, prompt: tokens(id, 3), maxTokens: 30, stop: { ignoreEnd: true } }));
    run.sampler.step();
    run.add(requestOf({ id: 9, prompt: tokens(50, 100) }));
    run.finish();
    const reading = run.pass.passes.filter((segments) => segments.some(({ count, past }) => count > 1 && past > 0));
    expect(reading.length).toBeGreaterThan(5);
    for (const segments of reading) expect(segments.filter(({ count }) => count === 1)).toHaveLength(4);
  });

  it('begins the youngest again where blocks run out, and finishes all', () => {
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
    // Nobody younger ends before the oldest, which never makes room.
    expect([...run.generations.keys()][0]).toBe(0);
  });

  it('scores on where it was when a prompt had to make room', () => {
    const request = requestOf({ id: 2, prompt: tokens(2, 60), promptLogProbs: 1 });
    const others = [0, 1].map((id) => requestOf({ id, prompt: tokens(id, 10), maxTokens: 60, stop: { ignoreEnd: true } }));
    const run = historyRun({ blocks: 8, limits: { rows: 3 } })
      .add(...others, request)
      .finish();
    const again = run.pass.passes.flat().filter(({ logits, past }) => logits === 'none' && past === 0);
    expect(again.length).toBeGreaterThan(0);
    expect(essence(run.generation(2))).toEqual(essence(historyRun().add(request).finish().generation(2)));
  });
});
