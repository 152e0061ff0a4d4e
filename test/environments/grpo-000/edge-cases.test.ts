/** Every row of the specification's tables of edge cases, by its name. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockSearchEngine, toTrajectory, WebSearchEngine } from 'vf-search/environments/grpo-000';
import { describe, expect, it } from 'vitest';
import { grpoAdapters } from '../../parity/grpo-adapters.ts';
import { playCase, readVectors } from '../../parity/vectors.ts';
import { GradientError } from '../../../src/core/errors.ts';
import { groupAdvantages } from '../../../src/trainer/credit/group-advantages.ts';
import { eventsOf, newRun, trainSmall } from '../../trainer/small-run.ts';
import { UnigramBackend } from '../../trainer/unigram-backend.ts';
import { loopback, sendJson } from '../../transport/loopback.ts';
import { askedEngine, environmentWith, QUESTION } from './fixtures.ts';
import { playScript } from '../play-script.ts';

const signal = new AbortController().signal;
const POPULATION = { baseline: 'mean', std: 'population', epsilon: 1e-8, singleton: 'zero' } as const;

describe('Generation Edge Cases', () => {
  it('Empty query → Return empty trajectory', async () => {
    const engine = askedEngine(() => 'x');
    const environment = environmentWith({ rows: [{ ...QUESTION, question: ' \u3000' }], engine });
    const { played } = await playScript(environment, ['<search>q</search>', '<answer>a</answer>']);
    expect(played).toMatchObject({ segments: [], generations: [], error: { type: 'EnvironmentError' } });
    expect(engine.asked).toEqual([]);
    const view = toTrajectory({ ...played, reward: null }, { query: '', tokenText: () => '' });
    expect(view).toEqual({
      query: '',
      token_steps: [],
      generated_text: '',
      reward: null,
      final_answer: '',
      full_input_ids: [],
      generated_positions: [],
      advantage: 0,
    });
  });

  it('Max tokens reached before </answer> → Truncate and extract partial answer', async () => {
    const { played, score } = await playScript(environmentWith({ config: { max_tokens: 12 } }), ['<answer>22:00</answer>']);
    expect(played).toMatchObject({ stop: 'max_total_completion_tokens_reached', segments: [{ text: '<answer>22:0' }] });
    expect((await score()).metrics).toMatchObject({ format_reward: -1, answer_reward: 1 });
  });

  it('Invalid XML structure → Format reward = -1.0', async () => {
    const { score } = await playScript(environmentWith(), ['22:00</answer>']);
    expect((await score()).metrics).toMatchObject({ format_reward: -1, answer_reward: 0 });
  });

  it('Search query extraction fails → Continue without search', async () => {
    const engine = askedEngine(() => 'x');
    const { played } = await playScript(environmentWith({ engine }), ['<search>\n</search>', '<answer>22:00</answer>']);
    expect(engine.asked).toEqual([]);
    expect(played).toMatchObject({ stop: 'completed', segments: [{ kind: 'model' }, { kind: 'model' }] });
  });
});

describe('Training Edge Cases', () => {
  it('Single trajectory in group → Advantage = 0.0', () => {
    expect([...groupAdvantages([2.5], POPULATION).advantages]).toEqual([0]);
  });

  it('Zero reward variance → Use ε in std calculation', () => {
    expect([...groupAdvantages([1, 1, 1], POPULATION).advantages]).toEqual([0, 0, 0]);
  });

  it('Mismatched sequence lengths → Skip trajectory in update', async () => {
    const cases = await readVectors(join(import.meta.dirname, '../../golden/grpo-000'), 'grpo_update');
    const mismatched = cases.filter(({ output }) => (output as { gradient: (number[] | null)[] }).gradient.includes(null));
    expect(mismatched.length).toBeGreaterThan(5);
    // In the trainer both arrays are views of one buffer, so that their lengths cannot differ.
    for (const each of mismatched) expect(await playCase(grpoAdapters['grpo_update']!, each)).toMatchObject({ outcome: 'passed' });
  });

  it('CUDA OOM → Fallback to CPU or reduce batch size', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vf-oom-'));
    const path = await newRun(folder);
    let isFull = true;
    const outOfMemory = (call: string) => {
      if (call !== 'backward' || !isFull) return;
      isFull = false;
      throw new GradientError('CUDA out of memory', { code: 'out_of_memory' });
    };
    const outcome = await trainSmall(path, {
      backend: async () => new UnigramBackend(outOfMemory),
      config: { steps: 1, backend: { max_tokens: 400 } },
    });
    expect(outcome).toMatchObject({ reason: 'finished', step: 1 });
    // The batch is divided further; the device stays.
    expect((await eventsOf(path)).map(({ kind }) => kind)).toContain('token_budget_halved');
    rmSync(folder, { recursive: true });
  });
});

describe('Search Engine Edge Cases', () => {
  it('API timeout → Return empty string or cached result', async () => {
    let isSilent = false;
    await using server = await loopback((_, response) =>
      isSilent ? undefined : sendJson(response, 200, { results: [{ title: 'T', content: 'c' }] }),
    );
    const options = { provider: 'searxng', baseUrl: server.url, timeoutMs: 50, maxRetries: 0 } as const;
    const engine = new WebSearchEngine({ ...options, onFailure: 'empty' });
    const known = await engine.search('known', { signal });
    isSilent = true;
    expect(await engine.search('known', { signal })).toBe(known);
    expect(await engine.search('new', { signal })).toBe('');
    const throwing = new WebSearchEngine(options);
    await expect(throwing.search('new', { signal })).rejects.toThrow(/no answer within 50 ms/);
    await Promise.all([engine.close(), throwing.close()]);
  });

  it('Rate limit exceeded → Queue and retry', async () => {
    let refused = 2;
    await using server = await loopback((_, response) =>
      refused-- > 0 ? sendJson(response, 429, {}) : sendJson(response, 200, { results: [{ title: 'T', content: 'c' }] }),
    );
    const engine = new WebSearchEngine({ provider: 'searxng', baseUrl: server.url, perSecond: 500, baseDelayMs: 1 });
    const texts = await engine.searchAll(['a', 'b', 'c'], { signal });
    expect(texts).toEqual(Array(3).fill('Doc 1(Title: "T") c'));
    expect(server.requests).toHaveLength(5);
    await engine.close();
  });

  it('asks Google unless a provider is named, as WebSearchEngine(api_key) of the document', async () => {
    await using server = await loopback((_, response) => sendJson(response, 200, { items: [{ title: 'T', snippet: 's' }] }));
    const engine = new WebSearchEngine({ apiKey: 'k', searchEngineId: 'e', baseUrl: server.url });
    expect(await engine.search('q', { signal })).toBe('Doc 1(Title: "T") s');
    expect([engine.name, server.requests]).toEqual(['google', ['GET /customsearch/v1?cx=e&num=3&q=q']]);
    await engine.close();
  });

  it('Invalid query → Return "No information found"', async () => {
    expect(await new MockSearchEngine({ a: '1' }).search('')).toBe('No information found for: ');
    await using server = await loopback((_, response) => sendJson(response, 400, {}));
    const engine = new WebSearchEngine({ provider: 'searxng', baseUrl: server.url });
    expect(await engine.search(' ', { signal })).toBe('No information found for:  ');
    expect(server.requests).toEqual([]);
    await engine.close();
  });
});
