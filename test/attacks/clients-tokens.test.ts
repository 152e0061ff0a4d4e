/** vLLM servers that lie, against the client that trains on what they say. */
import { describe, expect, it } from 'vitest';
import { PolicyError, PromptTooLongError, type VfError } from '../../src/core/errors.ts';
import { completion, type Fault, faultyServer } from '../loopback/faulty-server.ts';
import { openVllm, type OpenVllmOptions } from '../loopback/vllm-client.ts';

const signal = new AbortController().signal;
const PROMPT = [7, 8, 9];

async function meet(plan: readonly [Fault, ...Fault[]], options: OpenVllmOptions = {}, maxNewTokens = 2) {
  await using server = await faultyServer(plan);
  await using opened = await openVllm(server.url, { timeoutMs: 2000, maxRetries: 1, baseDelayMs: 1, ...options });
  await using lease = await opened.client.lease(signal);
  const request = { prompt: Int32Array.from(PROMPT), sampling: { temperature: 1, topP: 1 }, maxNewTokens, stop: [], signal };
  const outcome: unknown = await lease.generate(request).catch((error: unknown) => error);
  return { outcome, requests: server.requests.filter((path) => path.includes('completions')).length };
}

const sampled = (choice: Record<string, unknown>): Fault => ({ raw: JSON.stringify(completion(PROMPT, choice)) });
const spelled = (text: string, tokens: readonly string[], logProbs = tokens.map(() => -0.5)): Fault =>
  sampled({ text, token_ids: tokens.map((_, i) => 11 + i), logprobs: { tokens, token_logprobs: logProbs } });

describe('a vLLM server that samples what no model can', () => {
  const impossible: [what: string, fault: Fault, problem: RegExp][] = [
    ['more tokens than were asked for', spelled('a b c', ['a', ' b', ' c']), /sampled 3 tokens, but the limit was 2/],
    ['a log-prob of 3.5', spelled('a b', ['a', ' b'], [-0.5, 3.5]), /returned log-prob 3\.5 for token 1/],
    ['an id beyond the vocabulary', sampled({ token_ids: [11, 999_999] }), /sampled id 999999, but the vocabulary has only 259/],
    ['one token with the text of many', spelled('a whole text that the token does not spell', ['a']), /36 of 42 characters/],
    ['tokens without any string', spelled('a whole text that no token spells', ['', '']), /1 of 33 characters/],
  ];
  it.each(impossible)('fails the rollout: %s', async (_, fault, problem) => {
    const { outcome, requests } = await meet([fault], { vocabularySize: 259 });
    expect(outcome).toMatchObject({ name: 'PolicyError', retryable: false, message: expect.stringMatching(problem) });
    expect(requests).toBe(1);
  });

  it('may round a certain token to just above 0, and use any id of an unknown vocabulary', async () => {
    expect((await meet([spelled('a b', ['a', ' b'], [0.0009, 0])])).outcome).toMatchObject({ text: 'a b' });
    expect((await meet([sampled({ token_ids: [11, 999_999] })])).outcome).toMatchObject({ text: 'a b' });
  });

  it('is asked again where it does not say why the answer ended', async () => {
    const { outcome, requests } = await meet([sampled({ finish_reason: null })]);
    expect(outcome).toMatchObject({ name: 'PolicyError', retryable: true });
    expect(requests).toBe(2);
  });
});

describe('a vLLM server that refuses what fits', () => {
  const tooLong: Fault = { status: 400, body: { error: { message: "This model's maximum context length is 100 tokens.", param: 'input_tokens' } } };

  it('is an error of the policy: an announced window is a promise', async () => {
    const { outcome } = await meet([tooLong]);
    expect(outcome).toBeInstanceOf(PolicyError);
    expect(outcome).not.toBeInstanceOf(PromptTooLongError);
    expect((outcome as VfError).message).toMatch(/reports a window of 2048 tokens but rejected 3/);
  });

  it('is believed where the request goes beyond the window, or no window is known', async () => {
    expect((await meet([tooLong], {}, 2046)).outcome).toBeInstanceOf(PromptTooLongError);
    const capabilities = { maxModelLen: null, tokenizerHash: null, logProbsMode: 'raw' } as const;
    expect((await meet([tooLong], { capabilities })).outcome).toBeInstanceOf(PromptTooLongError);
  });
});
