import { describe, expect, it } from 'vitest';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import type { VllmLease } from '../../src/clients/vllm-lease.ts';
import { CancelledError, ConfigError, NumericPolicyError, PolicyError, PromptTooLongError, TimeoutError } from '../../src/core/errors.ts';
import { completion, type Fault, faultyServer } from '../loopback/faulty-server.ts';
import { openVllm, type OpenVllmOptions } from '../loopback/vllm-client.ts';
import { withTransport } from '../../src/transport/transport-settings.ts';
import { loopback, refusingUrl, sendJson, until } from '../transport/loopback.ts';

const signal = new AbortController().signal;
const QUICK = { timeoutMs: 2000, maxRetries: 1, baseDelayMs: 1 };
const error = (status: number, message: string, param: string | null = null): Fault => ({
  status,
  body: { error: { message, type: 'x', param, code: status } },
});

const generate = (lease: VllmLease, over: AbortSignal = signal) =>
  lease.generate({ prompt: Int32Array.of(7, 8, 9), sampling: { temperature: 1, topP: 1 }, maxNewTokens: 2, stop: [], signal: over });

/** One generation against a server with this plan, and how many requests it took. */
async function meet(plan: readonly [Fault, ...Fault[]], options: OpenVllmOptions = {}) {
  await using server = await faultyServer(plan);
  await using opened = await openVllm(server.url, { ...QUICK, ...options });
  await using lease = await opened.client.lease(signal);
  const outcome = await generate(lease).then(
    (sample) => ({ sample, failure: null }),
    (failure: unknown) => ({ sample: null, failure: failure as PolicyError }),
  );
  return { ...outcome, requests: server.requests.filter((request) => request.includes('completions')).length };
}

const okText = (choice: Record<string, unknown>) => ({ raw: JSON.stringify(completion([7, 8, 9], choice)) });
const oneToken = (logProb: string) => JSON.stringify(completion([7, 8, 9])).replace('"token_logprobs":[-0.5,', `"token_logprobs":[${logProb},`);

describe('a fault that may pass', () => {
  const passing: Record<string, Fault> = {
    'a reset': 'reset',
    'a reset midway': 'reset midway',
    'torn JSON': 'torn JSON',
    '500': error(500, 'EngineCore encountered an issue'),
    '502 in HTML': { status: 502, body: '<html>bad gateway</html>' },
    '503': error(503, 'loading'),
    'an abort of the server': okText({ finish_reason: 'abort' }),
  };
  it.for(Object.entries(passing))('%s is retried, and then the sample comes', async ([, fault]) => {
    const { sample, requests } = await meet([fault, 'ok']);
    expect(sample).toMatchObject({ text: 'a b', finish: 'length', tail: '' });
    expect(sample!.textEnds).toEqual(Int32Array.of(1, 3));
    expect(requests).toBe(2);
  });

  it.for(Object.entries(passing))('%s that stays is a retryable PolicyError', async ([, fault]) => {
    const { failure, requests } = await meet([fault]);
    expect(failure).toBeInstanceOf(PolicyError);
    expect(failure).toMatchObject({ name: 'PolicyError', retryable: true });
    expect(requests).toBe(2);
  });

  it('a refused connection is a retryable PolicyError that names the server', async () => {
    await using opened = await openVllm(await refusingUrl(), QUICK);
    await using lease = await opened.client.lease(signal);
    await expect(generate(lease)).rejects.toMatchObject({
      name: 'PolicyError',
      retryable: true,
      message: expect.stringMatching(/127\.0\.0\.1.*ECONNREFUSED/),
    });
  });

  it('a server that hangs is a TimeoutError after each deadline', async () => {
    const { failure, requests } = await meet(['hang'], { timeoutMs: 40 });
    expect(failure).toBeInstanceOf(TimeoutError);
    expect(requests).toBe(2);
  });

  it('a rate limit is waited for and uses up no retry', async () => {
    const limit = { status: 429, body: { error: { message: 'slow down' } }, headers: { 'retry-after': '0' } };
    const { sample, requests } = await meet([limit, limit, limit, 'ok']);
    expect([sample!.text, requests]).toEqual(['a b', 4]);
  });

  it('a rate limit that asks for a longer wait than allowed ends the run', async () => {
    const meeting = () => meet([{ status: 429, body: {}, headers: { 'retry-after': '120' } }]);
    const { failure } = await withTransport({ maxWaitMs: 60_000 }, meeting);
    expect(failure).toMatchObject({ name: 'PolicyError', status: 429, retryAfterMs: 120_000, endsRun: true });
  });
});

describe('a fault that stays', () => {
  it('a prompt beyond the window, or one that fills it, is a PromptTooLongError', async () => {
    const beyond = "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens.";
    for (const fault of [error(400, beyond, 'input_tokens'), error(400, 'max_tokens must be at least 1, got 0.', 'max_tokens')]) {
      const { failure, requests } = await meet([fault], { capabilities: { maxModelLen: 4, tokenizerHash: null, logProbsMode: 'raw' } });
      expect(failure).toBeInstanceOf(PromptTooLongError);
      expect(requests).toBe(1);
    }
  });

  it('log-probs that JSON cannot carry are a NumericPolicyError, not a bad request', async () => {
    const { failure, requests } = await meet([error(400, 'Out of range float values are not JSON compliant')]);
    expect(failure).toBeInstanceOf(NumericPolicyError);
    expect(failure).toMatchObject({ retryable: false, message: expect.stringContaining('prefix cache') });
    expect(requests).toBe(1);
  });

  it('an unknown model is a PolicyError that names the available models', async () => {
    const { failure } = await meet([error(404, 'The model `x` does not exist.', 'model')]);
    expect(failure).toMatchObject({
      name: 'PolicyError',
      status: 404,
      retryable: false,
      message: expect.stringMatching(/Models it serves: served$/),
    });
  });

  it('a wrong path is a PolicyError that questions the URL', async () => {
    const { failure } = await meet([{ status: 404, body: { detail: 'Not Found' } }]);
    expect(failure).toMatchObject({ name: 'PolicyError', retryable: false, message: expect.stringContaining('Check the URL') });
  });

  it('a 401 is a PolicyError that questions the key and does not show it', async () => {
    const { failure } = await meet([{ status: 401, body: { error: 'wrong key sk-secret-1' } }], { apiKey: 'sk-secret-1' });
    expect(failure).toMatchObject({ status: 401, retryable: false, message: expect.stringContaining('API key') });
    expect(failure!.message).not.toContain('sk-secret-1');
  });

  it('a quota that a gateway reports as used up ends the run, and is not waited for', async () => {
    const { failure } = await meet([{ status: 429, body: { error: { message: 'You exceeded your current quota', type: 'insufficient_quota' } } }]);
    expect(failure).toMatchObject({ status: 429, retryable: false, endsRun: true, message: expect.stringMatching(/Check its plan and billing\.$/) });
  });

  it.each([
    ['vLLM', false],
    ['The embedded engine', true],
  ])('is told as one of %s', async (name, isEmbedded) => {
    const capabilities = { kind: 'tokens', maxModelLen: 2048, tokenizerHash: null, logProbsMode: 'raw', isEmbedded } as const;
    for (const [fault, what] of [
      [error(400, 'no'), 'refused the request: '],
      [error(418, 'no'), 'failed: '],
    ] as const)
      expect((await meet([fault], { capabilities })).failure!.message).toMatch(new RegExp(`^${name} ${what}`));
  });

  it('any other 400 is a PolicyError at once', async () => {
    const { failure, requests } = await meet([error(400, 'Token id 9 is out of vocabulary', 'prompt')]);
    expect(failure).toMatchObject({ name: 'PolicyError', status: 400, retryable: false, message: expect.stringContaining('out of vocabulary') });
    expect(failure).toMatchObject({ param: 'prompt', reason: 'Token id 9 is out of vocabulary' });
    expect(requests).toBe(1);
  });

  const misshapen: Record<string, Fault> = {
    'without ids': okText({ token_ids: undefined }),
    'with null ids': okText({ token_ids: null }),
    'with more ids than log-probs': okText({ token_ids: [11, 12, 13] }),
    'with fewer strings than ids': okText({ logprobs: { token_logprobs: [-1, -1], tokens: ['a'] } }),
    'without log-probs': okText({ logprobs: null }),
    'with a negative id': okText({ token_ids: [11, -1] }),
    'with log-probs as text': okText({ logprobs: { token_logprobs: ['-1', '-1'], tokens: ['a', ' b'] } }),
    'for another prompt': okText({ prompt_token_ids: [7, 8] }),
    'with an unknown finish': okText({ finish_reason: 'tool_calls' }),
    'without choices': { raw: '{"choices":[]}' },
    'that is not an object': { raw: '[]' },
  };
  it.for(Object.entries(misshapen))('a 200 %s is a PolicyError at once', async ([, fault]) => {
    const { failure, requests } = await meet([fault]);
    expect(failure).toMatchObject({ name: 'PolicyError', retryable: false });
    expect(requests).toBe(1);
  });

  it('a stop string that the server cut off is a PolicyError', async () => {
    await using server = await faultyServer([okText({ finish_reason: 'stop', stop_reason: ' b', text: 'a' })]);
    await using opened = await openVllm(server.url, QUICK);
    await using lease = await opened.client.lease(signal);
    const generated = lease.generate({
      prompt: Int32Array.of(7, 8, 9),
      sampling: { temperature: 1, topP: 1 },
      maxNewTokens: 2,
      stop: [' b'],
      signal,
    });
    await expect(generated).rejects.toThrow(/removed the stop string/);
  });
});

describe('log-probs that are not numbers', () => {
  it.for([
    ['NaN', NaN],
    ['null', NaN],
    ['-9999', -Infinity],
    ['-9999.0', -Infinity],
    ['-Infinity', NaN],
    ['-12.5', -12.5],
  ] as const)('%s reads as %d and the other values stay', async ([written, read]) => {
    const { sample } = await meet([{ raw: oneToken(written) }]);
    expect(sample!.logProbs).toEqual(Float64Array.of(read, -0.25));
  });

  it('the words NaN and Infinity inside text stay text', async () => {
    const raw = JSON.stringify(
      completion([7, 8, 9], { text: 'NaN "b -Infinity', logprobs: { token_logprobs: [-1], tokens: ['NaN "b -Infinity'] }, token_ids: [5] }),
    );
    const { sample } = await meet([{ raw: raw.replace('[-1]', '[NaN]') }]);
    expect(sample).toMatchObject({ text: 'NaN "b -Infinity', logProbs: Float64Array.of(NaN) });
  });
});

describe('cancellation', () => {
  it('ends a hanging request and a waiting one', async () => {
    await using server = await faultyServer(['hang']);
    await using opened = await openVllm(server.url, { ...QUICK, maxConcurrentRequests: 1 });
    const controller = new AbortController();
    await using first = await opened.client.lease(signal);
    await using second = await opened.client.lease(signal);
    const both = [generate(first, controller.signal), generate(second, controller.signal)];
    await until(() => server.requests.length === 1);
    controller.abort();
    for (const generated of both) await expect(generated).rejects.toBeInstanceOf(CancelledError);
    await server.dropped();
  });

  it('refuses a second generation on a lease that is busy, and any after its end', async () => {
    await using server = await faultyServer(['hang']);
    await using opened = await openVllm(server.url, QUICK);
    const lease = await opened.client.lease(signal);
    const controller = new AbortController();
    const first = generate(lease, controller.signal);
    await expect(generate(lease)).rejects.toThrow(/is generating already/);
    controller.abort();
    await expect(first).rejects.toBeInstanceOf(CancelledError);
    await lease[Symbol.asyncDispose]();
    await expect(generate(lease)).rejects.toThrow(/was disposed/);
  });
});

describe('replicas', () => {
  it('share the leases; one that failed rests, and its trajectory goes on at the other', async () => {
    await using good = await faultyServer(['ok']);
    await using bad = await faultyServer([error(500, 'dead')]);
    await using opened = await openVllm([bad.url, good.url], { ...QUICK, maxRetries: 0 });
    const leases = await Promise.all([opened.client.lease(signal), opened.client.lease(signal)]);
    const samples = await Promise.all(leases.map((lease) => generate(lease)));
    expect(samples.map(({ text }) => text)).toEqual(['a b', 'a b']);
    for (let i = 0; i < 3; i++) {
      await using lease = await opened.client.lease(signal);
      await generate(lease);
    }
    expect([bad.requests.length, good.requests.length]).toEqual([1, 5]);
    for (const lease of leases) await lease[Symbol.asyncDispose]();
  });

  it('keep a trajectory where it began', async () => {
    await using one = await faultyServer(['ok']);
    await using two = await faultyServer(['ok']);
    await using opened = await openVllm([one.url, two.url], QUICK);
    await using lease = await opened.client.lease(signal);
    for (let i = 0; i < 3; i++) await generate(lease);
    expect(new Set([one.requests.length, two.requests.length])).toEqual(new Set([0, 3]));
  });

  const elsewhere: Record<string, Fault> = {
    'a broken connection': 'reset',
    'a server error': error(500, 'EngineCore encountered an issue'),
    'a lost adapter': error(404, 'The model `v1` does not exist.', 'model'),
    'NaN in the cache': error(400, 'Out of range float values are not JSON compliant'),
    'no answer in time': 'hang',
  };
  it.for(Object.entries(elsewhere))('take over after %s without a second request to the first, and it rests', async ([, fault]) => {
    await using bad = await faultyServer([fault]);
    await using good = await faultyServer(['ok']);
    await using opened = await openVllm([bad.url, good.url], { ...QUICK, timeoutMs: 300 });
    const { replicas } = opened.versions;
    const rested: string[] = [];
    using _ = replicas.supervise((replica) => rested.push(replica));
    await using lease = await opened.client.lease(signal);
    expect((await generate(lease)).text).toBe('a b');
    expect(bad.requests.filter((request) => request.includes('completions'))).toHaveLength(1);
    expect([rested, replicas.isResting(bad.url)]).toEqual([[bad.url], true]);
  });

  const everywhere: Record<string, Fault> = {
    'a prompt that is too long': error(400, 'This model has a maximum context length of 4 tokens', 'input_tokens'),
    'a wrong key': error(401, 'Unauthorized'),
    'a request that is refused': error(400, 'bad request'),
  };
  it.for(Object.entries(everywhere))('do not take over after %s, which would fail there too', async ([, fault]) => {
    await using bad = await faultyServer([fault]);
    await using good = await faultyServer(['ok']);
    await using opened = await openVllm([bad.url, good.url], QUICK);
    using _ = opened.versions.replicas.supervise(() => {});
    await using lease = await opened.client.lease(signal);
    await expect(generate(lease)).rejects.toThrow(PolicyError);
    expect([good.requests.length, opened.versions.replicas.isResting(bad.url)]).toEqual([0, false]);
  });

  it('that are busy are asked again rather than left', async () => {
    await using busy = await faultyServer([{ status: 429, body: {}, headers: { 'retry-after': '0' } }, 'ok']);
    await using other = await faultyServer(['ok']);
    await using opened = await openVllm([busy.url, other.url], QUICK);
    await using lease = await opened.client.lease(signal);
    await generate(lease);
    expect([busy.requests.length, other.requests.length]).toEqual([2, 0]);
  });

  it('that lack the version, or rest, get no trajectory of it', async () => {
    await using one = await faultyServer(['ok']);
    await using two = await faultyServer(['ok']);
    await using three = await faultyServer(['ok']);
    await using opened = await openVllm([one.url, two.url, three.url], QUICK);
    const { versions } = opened;
    const rests: string[] = [];
    using _ = versions.replicas.supervise((replica, why) => rests.push(`${replica}: ${why}`));
    versions.advance({ version: 1, model: 'v1' }, [two.url, three.url]);
    versions.replicas.rest(three.url, 'it is gone');
    for (let i = 0; i < 3; i++) {
      await using lease = await opened.client.lease(signal);
      await generate(lease);
    }
    expect([one, two, three].map(({ requests }) => requests.length)).toEqual([0, 3, 0]);
    expect(rests).toEqual([`${three.url}: it is gone`]);
    versions.replicas.admit(one.url, ['base', 'v1']);
    versions.replicas.rest(two.url, 'it is gone too');
    await using lease = await opened.client.lease(signal);
    await generate(lease);
    expect(one.requests).toHaveLength(1);
  });

  it('that all lack the version give a failure that may pass', async () => {
    await using server = await faultyServer(['ok']);
    await using opened = await openVllm(server.url, QUICK);
    opened.versions.advance({ version: 1, model: 'v1' }, []);
    await expect(opened.client.lease(signal)).rejects.toMatchObject({ name: 'PolicyError', retryable: true, endsRun: false });
    expect(server.requests).toEqual([]);
  });

  it('remember requests that were abandoned, by a caller or by a deadline, and none that were answered or refused', async () => {
    await using hanging = await faultyServer(['hang']);
    await using refusing = await faultyServer([error(400, 'no')]);
    const gone = await refusingUrl();
    for (const [url, isAbandoned] of [
      [hanging.url, true],
      [refusing.url, false],
      [gone, false],
    ] as const) {
      await using opened = await openVllm(url, { ...QUICK, maxRetries: 0, timeoutMs: 200 });
      await using lease = await opened.client.lease(signal);
      await generate(lease).catch(() => {});
      expect(opened.versions.replicas.abandonedMsAgo(url, 'nano-base') !== null).toBe(isAbandoned);
    }
    await using opened = await openVllm(hanging.url, QUICK);
    const lease = await opened.client.lease(signal);
    const leaving = new AbortController();
    const left = generate(lease, leaving.signal).catch(() => {});
    await until(() => hanging.requests.length === 2);
    leaving.abort();
    // At once: the lease ends right after, and then the version counts as drained.
    expect(opened.versions.replicas.abandonedMsAgo(hanging.url, 'nano-base')).not.toBeNull();
    await left;
    await lease[Symbol.asyncDispose]();
    opened.versions.replicas.forget('nano-base');
    expect(opened.versions.replicas.abandonedMsAgo(hanging.url, 'nano-base')).toBeNull();
  });

  it('are asked nevertheless when every one of them failed', async () => {
    await using server = await faultyServer([error(500, 'dead'), 'ok']);
    await using opened = await openVllm(server.url, { ...QUICK, maxRetries: 0 });
    await using first = await opened.client.lease(signal);
    await expect(generate(first)).rejects.toThrow('dead');
    await using second = await opened.client.lease(signal);
    expect((await generate(second)).text).toBe('a b');
  });
});

describe('probePolicy', () => {
  it('finds a server that only chats, and says why', async () => {
    await using server = await loopback((request, response) =>
      request.url === '/v1/models'
        ? sendJson(response, 200, { object: 'list', data: [{ id: 'gpt', object: 'model' }, { id: 'gpt-2' }] })
        : sendJson(response, 404, { error: { message: 'Unknown request URL', type: 'invalid_request_error', param: null, code: 'unknown_url' } }),
    );
    const probe = await probePolicy({ baseUrl: server.url, model: 'other', signal });
    expect(probe).toMatchObject({
      kind: 'chat',
      model: 'other',
      maxModelLen: null,
      logProbsMode: 'none',
      chatOnlyBecause: expect.stringContaining('/tokenize'),
    });
    await expect(probePolicy({ baseUrl: server.url, model: null, signal })).rejects.toThrow(/gpt, gpt-2.*-m/);
  });
  it('asks for a name where a server lists no models', async () => {
    await using server = await loopback((_, response) => sendJson(response, 404, {}));
    const attempt = probePolicy({ baseUrl: server.url, model: null, signal });
    await expect(attempt).rejects.toThrow(/lists no models .*404.*Name one as the model \(-m/);
    await expect(attempt).rejects.toThrow(ConfigError);
  });

  it('fails when the key is refused, nothing answers or the server is broken, and never calls that chat', async () => {
    await using locked = await loopback((_, response) => sendJson(response, 401, { error: { message: 'no' } }));
    await expect(probePolicy({ baseUrl: locked.url, model: 'm', signal })).rejects.toThrow(/API key/);
    await using broken = await faultyServer([error(500, 'dead')]);
    await expect(probePolicy({ baseUrl: broken.url, model: 'served', signal, maxRetries: 0 })).rejects.toThrow(/dead/);
    await expect(probePolicy({ baseUrl: await refusingUrl(), model: 'm', signal, maxRetries: 0 })).rejects.toThrow(/ECONNREFUSED/);
  });
});
