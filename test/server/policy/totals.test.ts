/** What /metrics and the answers count, over any mix of concurrent requests, some of whose clients leave. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../transport/loopback.ts';
import { eventsOf, JSON_TYPE, type NanoServer, nanoServer } from './nano-server.ts';

interface Ask {
  /** Blocks of 16 tokens that prompts share. */
  readonly head: number;
  readonly tail: number;
  readonly maxTokens: number;
  readonly stream: boolean;
  /** Null: the client stays to the end. */
  readonly leavesAfterMs: number | null;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

interface Answer {
  readonly ask: Ask;
  readonly usage: Usage;
  readonly ids: readonly number[];
  readonly finish: string;
}

const staying: fc.Arbitrary<Ask> = fc.record({
  head: fc.nat(3),
  tail: fc.integer({ min: 1, max: 20 }),
  maxTokens: fc.integer({ min: 1, max: 80 }),
  stream: fc.boolean(),
  leavesAfterMs: fc.constant(null),
});
const leaving = fc.tuple(staying, fc.nat(30)).map(([ask, leavesAfterMs]): Ask => ({ ...ask, leavesAfterMs }));
const sum = <T>(items: readonly T[], of: (item: T) => number) => items.reduce((total, item) => total + of(item), 0);

describe('policyApp', () => {
  let server: NanoServer;
  beforeAll(async () => {
    // The cache is too small for all of them, so that some give up their room for a while.
    server = await nanoServer({ engine: { threads: 2, maxModelLen: 160, cacheTokens: 160 } });
  });
  afterAll(() => server?.close());

  /** Null where the client left before the end. */
  async function put(ask: Ask): Promise<Answer | null> {
    const { head, tail, maxTokens, stream, leavesAfterMs } = ask;
    const prompt = [...Array.from({ length: 16 * head }, (_, i) => 300 + i), ...Array.from({ length: tail }, (_, i) => 500 + ((i * 7 + tail) % 900))];
    const fields = { prompt, max_tokens: maxTokens, return_token_ids: true, stream, ...(stream ? { stream_options: { include_usage: true } } : {}) };
    const signal = leavesAfterMs === null ? null : AbortSignal.timeout(leavesAfterMs);
    try {
      const response = await fetch(`${server.url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(fields), signal });
      const text = await response.text();
      type Part = { usage: Usage | null; choices: { token_ids: number[]; finish_reason: string | null }[] };
      const parts = (stream ? eventsOf(text).events : [JSON.parse(text)]) as Part[];
      const choices = parts.flatMap((part) => part.choices);
      return { ask, usage: parts.at(-1)!.usage!, ids: choices.flatMap((choice) => choice.token_ids), finish: choices.at(-1)!.finish_reason! };
    } catch (error) {
      if (signal?.aborted === true) return null;
      throw error;
    }
  }

  async function totals() {
    const { text } = await server.get('/metrics');
    const value = (name: string, label = '') => Number(new RegExp(`^vllm:${name}\\{[^}]*${label}[^}]*\\} (\\S+)$`, 'm').exec(text)![1]);
    return {
      prompt: value('prompt_tokens_total'),
      generated: value('generation_tokens_total'),
      cached: value('prefix_cache_hits_total'),
      stop: value('request_success_total', 'finished_reason="stop"'),
      length: value('request_success_total', 'finished_reason="length"'),
      abort: value('request_success_total', 'finished_reason="abort"'),
      error: value('request_success_total', 'finished_reason="error"'),
      ended: value('e2e_request_latency_seconds_count'),
      streamed: value('time_to_first_token_seconds_count'),
      atWork: value('num_requests_running') + value('num_requests_waiting') + value('kv_cache_usage_perc'),
    };
  }

  it('counts every token and every answer once', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(staying, { minLength: 1, maxLength: 24, size: 'max' }), async (asks) => {
        const before = await totals();
        const answers = (await Promise.all(asks.map(put))).filter((answer) => answer !== null);
        await until(async () => (await totals()).atWork === 0);
        const after = await totals();
        const grown = Object.fromEntries(Object.entries(after).map(([key, value]) => [key, value - before[key as keyof typeof before]]));
        expect(grown).toEqual({
          prompt: sum(asks, ({ head, tail }) => 16 * head + tail),
          generated: sum(answers, ({ ids }) => ids.length),
          cached: sum(answers, ({ usage }) => usage.prompt_tokens_details.cached_tokens),
          stop: answers.filter(({ finish }) => finish === 'stop').length,
          length: answers.filter(({ finish }) => finish === 'length').length,
          abort: 0,
          error: 0,
          ended: asks.length,
          streamed: asks.filter(({ stream }) => stream).length,
          atWork: 0,
        });
        for (const { ask, usage, ids } of answers) {
          const prompt = 16 * ask.head + ask.tail;
          expect(usage).toMatchObject({ prompt_tokens: prompt, completion_tokens: ids.length, total_tokens: prompt + ids.length });
          expect(usage.prompt_tokens_details.cached_tokens).toBeLessThan(prompt);
        }
      }),
      { numRuns: 12 },
    );
    expect(server.engine.stats().preemptions).toBeGreaterThan(0);
  }, 60_000);

  it('keeps no request of clients that leave, and counts no more for them than they asked for', async () => {
    const [begun, all] = [await totals(), { answers: [] as Answer[], asks: [] as Ask[] }];
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(staying, leaving), { minLength: 1, maxLength: 24 }), async (asks) => {
        const answers = (await Promise.all(asks.map(put))).filter((answer) => answer !== null);
        all.asks.push(...asks);
        all.answers.push(...answers);
        await until(async () => (await totals()).atWork === 0);
        const now = await totals();
        const own = sum(all.answers, ({ ids }) => ids.length);
        const left = all.asks.filter(({ leavesAfterMs }) => leavesAfterMs !== null);
        expect(now.generated - begun.generated).toBeGreaterThanOrEqual(own);
        expect(now.generated - begun.generated).toBeLessThanOrEqual(own + sum(left, ({ maxTokens }) => maxTokens));
        expect(now.prompt - begun.prompt).toBeLessThanOrEqual(sum(all.asks, ({ head, tail }) => 16 * head + tail));
        expect(now.cached - begun.cached).toBeLessThanOrEqual(now.prompt - begun.prompt);
        // A client that left at the last moment may have been answered.
        const ended = now.stop + now.length - begun.stop - begun.length;
        expect(ended).toBe(now.ended - begun.ended);
        expect(ended).toBeGreaterThanOrEqual(all.answers.length);
        expect(ended + now.abort - begun.abort).toBeLessThanOrEqual(all.asks.length);
        expect(now.error).toBe(begun.error);
      }),
      { numRuns: 12 },
    );
    expect((await totals()).abort).toBeGreaterThan(begun.abort);
    expect(server.failures).toEqual([]);
  }, 60_000);
});
