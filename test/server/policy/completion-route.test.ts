import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startPolicyServer } from '../../../src/server/policy/start-policy-server.ts';
import { until } from '../../transport/loopback.ts';
import { answerOf, eventsOf, JSON_TYPE, NANO_PATH, type NanoServer, nanoServer } from './nano-server.ts';

const PROMPT = 'Question: who wrote it?\n';
const SAMPLED = { prompt: PROMPT, max_tokens: 12, temperature: 1, seed: 7, logprobs: 1, return_token_ids: true };

let server: NanoServer;
beforeAll(async () => {
  server = await nanoServer();
});
afterAll(() => server.close());

const complete = (body: object) => server.post('/v1/completions', body);

/** The choices of a stream put together, in order of their index. */
function assembled(text: string) {
  const { events, isEnded } = eventsOf(text);
  expect(isEnded).toBe(true);
  const parts = events.flatMap((event) => event.choices.map((choice: object) => choice));
  const indices = [...new Set(parts.map(({ index }) => index as number))].toSorted((a, b) => a - b);
  return indices.map((index) => {
    const own = parts.filter((part) => part.index === index);
    const joined = (key: string) => own.flatMap((part) => part.logprobs[key] as unknown[]);
    return {
      text: own.map((part) => part.text as string).join(''),
      token_ids: own.flatMap((part) => part.token_ids as number[]),
      logprobs: Object.fromEntries(['text_offset', 'token_logprobs', 'tokens', 'top_logprobs'].map((key) => [key, joined(key)])),
      finish_reason: own.at(-1).finish_reason as string,
      stop_reason: own.at(-1).stop_reason as unknown,
      prompt_token_ids: own[0].prompt_token_ids as number[],
    };
  });
}

describe('POST /v1/completions', () => {
  it.each([
    ['a sampled answer', {}],
    ['a stop string that is kept', { temperature: 0, stop: ['swer th'], include_stop_str_in_output: true }],
    ['a stop string that is cut', { temperature: 0, stop: ['swer th'] }],
    ['several prompts of several choices', { prompt: [PROMPT, 'Who'], n: 2 }],
    ['bytes that form no character', { allowed_token_ids: [162, 244, 229, 300] }],
    ['one token', { max_tokens: 1 }],
  ])('streams %s just as it returns it whole', async (_, fields) => {
    const whole = (await complete({ ...SAMPLED, ...fields })).body;
    const parts = assembled((await complete({ ...SAMPLED, ...fields, stream: true })).text);
    expect(parts).toEqual(
      whole.choices.map(({ text, token_ids, logprobs, finish_reason, stop_reason, prompt_token_ids }: (typeof parts)[number]) => ({
        text,
        token_ids,
        logprobs,
        finish_reason,
        stop_reason,
        prompt_token_ids,
      })),
    );
  });

  it('ends a stream with usage when asked, and reports it in between', async () => {
    const options = { include_usage: true, continuous_usage_stats: true };
    const { events } = eventsOf((await complete({ ...SAMPLED, stream: true, stream_options: options })).text);
    expect(events.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 13, completion_tokens: 12, total_tokens: 25 } });
    expect(events.slice(0, -1).map(({ usage }) => usage.completion_tokens)).toEqual(events.slice(0, -1).map((__, i) => Math.min(i + 1, 12)));
    expect(eventsOf((await complete({ ...SAMPLED, stream: true })).text).events.filter((event) => 'usage' in event)).toEqual([]);
  });

  it('says by its status what is wrong with a request for a stream', async () => {
    expect(await complete({ ...SAMPLED, stream: true, model: 'nope' })).toMatchObject({ status: 404, body: { error: { param: 'model' } } });
    expect((await complete({ ...SAMPLED, stream: true, stop_token_ids: [9999] })).status).toBe(400);
  });

  it('gives each choice the next seed, and each prompt the same seeds', async () => {
    const ids = async (fields: object) =>
      (await complete({ ...SAMPLED, ...fields })).body.choices.map((choice: { token_ids: number[] }) => choice.token_ids);
    const together = await ids({ prompt: [PROMPT, PROMPT], n: 3 });
    const alone = [...(await ids({ seed: 7 })), ...(await ids({ seed: 8 })), ...(await ids({ seed: 9 }))];
    expect(together).toEqual([...alone, ...alone]);
    expect(new Set(alone.map(String)).size).toBe(3);
  });

  it('counts every prompt once, and the cached part of the last one', async () => {
    const prompt = Array.from({ length: 40 }, (_, i) => 400 + i);
    const first = (await complete({ prompt, max_tokens: 2, n: 3 })).body.usage;
    expect(first).toMatchObject({ prompt_tokens: 40, completion_tokens: 6, total_tokens: 46 });
    const again = (await complete({ prompt, max_tokens: 1 })).body.usage;
    expect(again.prompt_tokens_details.cached_tokens).toBe(32);
    await server.post('/reset_prefix_cache', {});
    const salted = (await complete({ prompt, max_tokens: 1, cache_salt: 'other' })).body.usage;
    const reset = (await complete({ prompt, max_tokens: 1 })).body.usage;
    expect([salted, reset].map((usage) => usage.prompt_tokens_details.cached_tokens)).toEqual([0, 0]);
  });

  it('names an answer after the request', async () => {
    expect((await complete({ ...SAMPLED, request_id: 'mine' })).body.id).toBe('cmpl-mine');
    const headers = { ...JSON_TYPE, 'x-request-id': 'of-the-header' };
    const response = await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ ...SAMPLED, request_id: 'mine' }),
    });
    expect(((await response.json()) as { id: string }).id).toBe('cmpl-of-the-header');
    const ids = await Promise.all([1, 2, 3].map(async () => (await complete(SAMPLED)).body.id as string));
    expect(new Set(ids).size).toBe(3);
  });

  const REFUSED: readonly [string, unknown][] = [
    ['repetition_penalty', 1.1],
    ['presence_penalty', 0.5],
    ['frequency_penalty', -0.5],
    ['logit_bias', { 5: 10 }],
    ['best_of', 3],
    ['bad_words', ['a']],
    ['response_format', { type: 'json_object' }],
    ['structured_outputs', { json: {} }],
    ['guided_regex', 'a+'],
    ['use_beam_search', true],
    ['truncate_prompt_tokens', 4],
    ['prompt_embeds', 'AA=='],
    ['logits_processors', ['x']],
    ['suffix', 'end'],
    ['vllm_xargs', { a: 1 }],
  ];
  it.each(REFUSED)('refuses %s by name', async (field, value) => {
    const answer = await complete({ ...SAMPLED, [field]: value });
    expect(answer).toMatchObject({ status: 400, body: { error: { param: field, message: expect.stringContaining(field) as string } } });
  });

  it('accepts fields that leave the samples as they are', async () => {
    const neutral = {
      repetition_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      logit_bias: {},
      best_of: 1,
      bad_words: [],
      response_format: { type: 'text' },
    };
    const rest = { use_beam_search: false, suffix: null, vllm_xargs: {}, length_penalty: 1, user: 'me', priority: 0 };
    const plain = (await complete(SAMPLED)).body.choices;
    expect((await complete({ ...SAMPLED, ...neutral, ...rest })).body.choices).toEqual(plain);
  });

  it('bounds prompts × n', async () => {
    for (const fields of [{ n: 1025 }, { prompt: Array.from({ length: 513 }, () => PROMPT), n: 2 }])
      expect(await complete({ ...SAMPLED, ...fields })).toMatchObject({
        status: 400,
        body: { error: { message: expect.stringContaining('1,024') as string } },
      });
  });

  it('refuses more choices than its engine takes at once for good: coming back later would not help', async () => {
    const open = { modelPath: NANO_PATH, threads: 1, maxPending: 2, signal: new AbortController().signal };
    const small = await startPolicyServer({ open, apiKey: null });
    const ask = (n: number) =>
      fetch(`${small.url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify({ prompt: [300], max_tokens: 1, n }) });
    try {
      expect((await ask(2)).status).toBe(200);
      const refused = await answerOf(await ask(3));
      expect(refused).toMatchObject({ status: 400, body: { error: { message: expect.stringMatching(/at most 2 choices.*1 × 3/) as string } } });
    } finally {
      await small.close();
    }
  });

  it('refuses further requests when the queue is full, and says when to come back', async () => {
    await using small = await nanoServer({ engine: { maxPending: 2 } });
    const ask = () =>
      fetch(`${small.url}/v1/completions`, {
        method: 'POST',
        headers: JSON_TYPE,
        body: JSON.stringify({ prompt: [300], max_tokens: 500, ignore_eos: true }),
      });
    const answers = await Promise.all(Array.from({ length: 6 }, ask));
    const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([200, 200, 503, 503, 503, 503]);
    const busy = answers.find(({ status }) => status === 503)!;
    expect(busy.headers.get('retry-after')).toBe('1');
    expect(await busy.json()).toMatchObject({ error: { type: 'ServiceUnavailableError', code: 503 } });
    // A request whose choices do not all fit leaves none of them running.
    const before = small.engine.stats().finished;
    expect((await small.post('/v1/completions', { prompt: [300], n: 3, max_tokens: 500, ignore_eos: true })).status).toBe(503);
    expect(small.engine.stats().finished).toEqual({ ...before, abort: before.abort + 2 });
    await until(() => small.engine.stats().requestsRunning + small.engine.stats().requestsWaiting === 0);
  });
});

describe('a client that leaves', () => {
  const LONG = { prompt: [300], max_tokens: 2000, ignore_eos: true };
  const pending = () => server.engine.stats().requestsRunning + server.engine.stats().requestsWaiting;

  it.each([
    ['while it waits for the whole', { n: 3 }],
    ['before the first event', { stream: true }],
  ])('ends its generations %s', async (_, fields) => {
    const before = server.engine.stats();
    const leaving = new AbortController();
    const body = JSON.stringify({ ...LONG, ...fields });
    const asked = fetch(`${server.url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body, signal: leaving.signal }).then((response) =>
      response.text(),
    );
    await until(() => pending() > 0);
    leaving.abort();
    await expect(asked).rejects.toThrow(/abort/);
    // A request stops running before it is counted as finished.
    const aborted = before.finished.abort + ('n' in fields ? 3 : 1);
    await until(() => pending() === 0 && server.engine.stats().finished.abort >= aborted);
    expect(server.engine.stats().finished).toMatchObject({ length: before.finished.length, abort: aborted });
    expect(server.failures).toEqual([]);
  });

  it('ends its generation in the middle of a stream', async () => {
    const before = server.engine.stats();
    const leaving = new AbortController();
    const body = JSON.stringify({ ...LONG, stream: true });
    const response = await fetch(`${server.url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body, signal: leaving.signal });
    await response.body!.getReader().read();
    leaving.abort();
    await until(() => pending() === 0 && server.engine.stats().finished.abort > before.finished.abort);
    const { finished, generatedTokens } = server.engine.stats();
    expect(finished.abort).toBe(before.finished.abort + 1);
    expect(generatedTokens - before.generatedTokens).toBeLessThan(2000);
    expect(server.failures).toEqual([]);
  });
});

describe('defaults', () => {
  it('are plain sampling, or those of generation_config.json on demand', async () => {
    await using configured = await nanoServer({ generationConfig: 'auto' });
    const body = { ...SAMPLED, temperature: undefined };
    // The file of this model says 1 as well.
    expect((await configured.post('/v1/completions', body)).body.choices).toEqual((await complete(SAMPLED)).body.choices);
    expect((await complete(body)).body.choices).toEqual((await complete(SAMPLED)).body.choices);
    expect((await complete({ prompt: PROMPT, ignore_eos: true })).body.usage.completion_tokens).toBe(16);
  });

  it('give log-probs of the model itself, or of the distribution drawn from', async () => {
    await using processed = await nanoServer({ logProbsMode: 'processed' });
    const forced = { prompt: PROMPT, max_tokens: 1, logprobs: 0, allowed_token_ids: [300] };
    expect((await processed.post('/v1/completions', forced)).body.choices[0].logprobs.token_logprobs).toEqual([0]);
    expect((await complete(forced)).body.choices[0].logprobs.token_logprobs[0]).toBeLessThan(-1);
  });
});
