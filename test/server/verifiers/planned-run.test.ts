import { describe, expect, it } from 'vitest';
import { golden, run, serveWire, type ServeWireOptions } from './wire-client.ts';

const { requests } = golden;

/** The policy that a run opens, or the error that it gets. */
async function opened(fields: Readonly<Record<string, unknown>>, options: ServeWireOptions = {}) {
  await using served = await serveWire(options);
  const { reply } = await served.client.ask('run', run(fields));
  return reply.error ?? served.opened[0]!;
}

/** What each call of the policy was sampled with. */
async function sampledWith(sampling: Readonly<Record<string, unknown>>) {
  await using served = await serveWire();
  const { deltas, reply } = await served.client.ask('run', run({ sampling }));
  return reply.error ?? deltas[0]!.calls[0]!.sampling;
}

const base_url = 'http://127.0.0.1:8000/v1';

describe('plannedRun', () => {
  it('takes the policy as the recorded client names it', async () => {
    const { client, model, sampling } = requests.run_train.read;
    expect(await opened({ client, model, sampling })).toEqual({
      baseUrl: base_url,
      model: 'policy',
      keyVariable: 'VLLM_API_KEY',
      isKeyNeeded: false,
      headers: { 'x-team': 't' },
      kind: 'tokens',
      version: 0,
      cacheSalt: '7',
    });
    const asEval = await opened(requests.run_eval.read);
    expect(asEval).toMatchObject({ keyVariable: 'PRIME_API_KEY', isKeyNeeded: false, kind: 'auto', headers: {} });
    expect(asEval).not.toHaveProperty('cacheSalt');
  });

  it('samples as the recorded client asks, without what the server of the policy is asked anyway', async () => {
    expect(await sampledWith(requests.run_train.read['sampling']!)).toEqual({ temperature: 1, top_p: 0.95, top_k: -1, min_p: 0, max_tokens: 64 });
    expect(await sampledWith(requests.run_eval.read['sampling']!)).toMatchObject({ temperature: 1, top_p: 1 });
  });

  it('reads fields under extra_body as fields next to it, which take precedence', async () => {
    const asked = { temperature: 0.5, top_k: 5, n: 1, extra_body: { top_k: 4, min_p: 0.1, logprobs: true }, reasoning_effort: null };
    expect(await sampledWith(asked)).toMatchObject({ temperature: 0.5, top_k: 5, min_p: 0.1 });
  });

  it.each([
    [{ stop: ['x'] }, /^ConfigError: sampling cannot set "stop": the environment decides where a generation ends$/],
    [{ extra_body: { stop_token_ids: [1] } }, /^ConfigError: sampling cannot set "stop_token_ids"/],
    [{ n: 2 }, /^ConfigError: sampling cannot set "n"/],
    [{ temperature: -1 }, /^ConfigError: temperature in sampling must be a number from 0 to 100, got -1$/],
    [{ cache_salt: [1] }, /^ConfigError: sampling\.cache_salt must be a string/],
  ])('refuses the sampling %j', async (sampling, error) => {
    expect(await sampledWith(sampling)).toMatch(error);
  });

  it('sends headers from variables that a caller may name, where they hold something', async () => {
    const names = ['ROUTER_API_KEY', 'EMPTY_API_KEY', 'UNSET_API_KEY'];
    const options = { variables: { ROUTER_API_KEY: 'k', EMPTY_API_KEY: '', HOME: '/root' }, policies: { allowedKeyVariables: names } };
    const client = {
      base_url,
      headers: { 'x-one': '1' },
      headers_from_env: { 'x-key': 'ROUTER_API_KEY', 'x-empty': 'EMPTY_API_KEY', 'x-unset': 'UNSET_API_KEY' },
    };
    expect(await opened({ client }, options)).toMatchObject({ headers: { 'x-one': '1', 'x-key': 'k' } });
    const nosy = { client: { base_url, headers_from_env: { 'x-home': 'HOME' } } };
    expect(await opened(nosy, options)).toMatch(
      /^ConfigError: client\.headers_from_env is "HOME"\. A variable is sent only if the server was started with --allow-policy-key-var NAME/,
    );
    expect(await opened(nosy, { ...options, policies: { allowedKeyVariables: ['HOME'] } })).toMatchObject({ headers: { 'x-home': '/root' } });
  });

  it('sends no key where none is named, and none of a variable that a caller may not name', async () => {
    expect(await opened({ client: { base_url, api_key_var: '' } })).toMatchObject({ keyVariable: null });
    expect(await opened({ client: { base_url, api_key_var: null } })).toMatchObject({ keyVariable: null });
    expect(await opened({ client: { base_url, api_key_var: 'HOME' } })).toMatch(/^ConfigError: client\.api_key_var is "HOME"/);
  });

  it('opens a policy once for runs that ask for the same, and again for another salt', async () => {
    await using served = await serveWire();
    for (const cacheSalt of ['1', '1', '2']) await served.client.ask('run', run({ sampling: { cache_salt: cacheSalt } }));
    expect(served.opened.map(({ cacheSalt }) => cacheSalt)).toEqual(['1', '2']);
  });
});
