/** A trajectory whose weights change while it is played, over a loopback server that answers as vLLM 0.32 does. */
import { describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import { PolicyError } from '../../src/core/errors.ts';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

const { signal } = new AbortController();
const CAPABILITIES = { maxModelLen: 100, tokenizerHash: null, logProbsMode: 'raw', chatTemplate: 'chatml' } as const;

interface Asked {
  readonly model: string;
  readonly cache_salt?: string;
  readonly token_ids: readonly number[];
}

type Labelled = readonly { readonly version: string; readonly start: number; readonly end: number }[] | null;

/** Answers each generation with the text `abcd`, one token a letter, sampled by the weights that `labels` names. */
async function policyServer(labels: (asked: Asked, index: number) => Labelled | Promise<Labelled>) {
  const asked: Asked[] = [];
  const server = await loopback(async (request, response) => {
    if (request.url !== '/inference/v1/generate') return sendJson(response, 404, { error: { message: 'not here' } });
    const body = JSON.parse(await readText(request)) as Asked;
    const weights = await labels(body, asked.push(body) - 1);
    const content = ['a', 'b', 'c', 'd'].map((token, i) => ({ token, logprob: -(i + 1) / 8, top_logprobs: [] }));
    const choice = { text: 'abcd', token_ids: [20, 21, 22, 23], logprobs: { content }, finish_reason: 'length', weight_versions: weights };
    return sendJson(response, 200, { choices: [choice], prompt_token_ids: body.token_ids });
  });
  return Object.assign(server, { asked });
}

function opened(url: string) {
  const versions = new PolicyVersions({ version: 0, model: 'base' }, { isInFlight: true });
  const client = new VllmTokensClient({ baseUrls: [url], versions, capabilities: CAPABILITIES, maxRetries: 0 });
  return { versions, client, [Symbol.asyncDispose]: () => client.close() };
}

const request = (prompt: Int32Array) => ({ prompt, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 4, stop: [], signal });
const whole = (version: string) => [{ version, start: 0, end: 4 }];

describe('VllmLease in flight', () => {
  it('gives every token the version whose weights sampled it, in one segment', async () => {
    await using server = await policyServer(({ model }) => [
      { version: model, start: 0, end: 1 },
      { version: 'run-v2', start: 1, end: 4 },
    ]);
    await using policy = opened(server.url);
    policy.versions.advance({ version: 1, model: 'run-v1' });
    await using lease = await policy.client.lease(signal);
    const sampling = lease.generate(request(Int32Array.of(5, 6)));
    policy.versions.advance({ version: 2, model: 'run-v2', cacheSalt: 'run-v2' });
    const sample = await sampling;
    const buffer = new TokenBuffer();
    buffer.appendGiven('prompt', Int32Array.of(5, 6));
    buffer.commit(sample, 4, lease.policy.version);
    const versions = [
      { version: 1, tokens: 1 },
      { version: 2, tokens: 3 },
    ];
    expect(buffer.segments[1]).toEqual({ kind: 'model', start: 2, end: 6, version: 1, versions });
    expect([...sample.logProbs]).toEqual([-1 / 8, -2 / 8, -3 / 8, -4 / 8]);
  });

  it('begins each turn under the version that is current then, and holds none between turns', async () => {
    await using server = await policyServer(({ model }) => whole(model));
    await using policy = opened(server.url);
    await using lease = await policy.client.lease(signal);
    await lease.generate(request(Int32Array.of(5, 6)));
    expect(policy.versions.isHeld(0)).toBe(false);
    policy.versions.advance({ version: 1, model: 'run-v1', cacheSalt: 'run-v1' });
    const { versions } = await lease.generate(request(Int32Array.of(5, 6, 7)));
    expect(versions).toEqual([{ version: 1, tokens: 4 }]);
    expect(server.asked.map(({ model, cache_salt: salt, token_ids: ids }) => ({ model, salt, ids }))).toEqual([
      { model: 'base', salt: undefined, ids: [5, 6] },
      { model: 'run-v1', salt: 'run-v1', ids: [5, 6, 7] },
    ]);
  });

  it('sends nothing while new weights are loaded', async () => {
    await using server = await policyServer(({ model }) => whole(model));
    await using policy = opened(server.url);
    await using lease = await policy.client.lease(signal);
    const pause = policy.versions.pause();
    const waiting = lease.generate(request(Int32Array.of(5)));
    // An answer to another request shows that the first would have arrived.
    await fetch(server.url);
    expect(server.asked).toEqual([]);
    policy.versions.advance({ version: 1, model: 'run-v1' });
    pause[Symbol.dispose]();
    expect((await waiting).versions).toEqual([{ version: 1, tokens: 4 }]);
  });

  it('begins the prompt again where it was cut', async () => {
    await using server = await policyServer(({ model }) => whole(model));
    await using policy = opened(server.url);
    await using lease = await policy.client.lease(signal);
    await lease.generate(request(Int32Array.of(5, 6)));
    await lease.generate({ ...request(Int32Array.of(6, 7, 8)), cut: true });
    expect(server.asked[1]!.token_ids).toEqual([6, 7, 8]);
  });

  it.each<[string, Labelled, boolean, string]>([
    ['names no weights', null, false, 'did not say which weights sampled its tokens'],
    ['names weights that the run did not publish', whole('default'), true, 'which this run has not published'],
    ['leaves tokens out', [{ version: 'base', start: 0, end: 3 }], false, 'versions cover 3 of 4 tokens'],
    ['names weights of a gap', [{ version: 'base', start: 1, end: 4 }], false, 'from 1 on after those up to 0'],
  ])('refuses an answer that %s', async (_, labels, retryable, message) => {
    await using server = await policyServer(() => labels);
    await using policy = opened(server.url);
    await using lease = await policy.client.lease(signal);
    const failure = await lease.generate(request(Int32Array.of(5))).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(PolicyError);
    expect(failure).toMatchObject({ message: expect.stringContaining(message), retryable });
    expect(policy.versions.isHeld(0)).toBe(false);
  });
});
