import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { TinkerTokensClient } from '../../src/clients/tinker-tokens.ts';
import { ConfigError, PolicyError } from '../../src/core/errors.ts';
import { PassDialect } from '../../src/tinker/service/pass-dialect.ts';
import { SamplingSession } from '../../src/tinker/service/sampling-session.ts';
import { ServiceConnection } from '../../src/tinker/service/service-connection.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { type OpenedPolicy, policyClientContract } from '../contracts/policy-client.ts';
import { NANO_TRAITS } from '../loopback/vllm-client.ts';
import { type EngineService, engineService } from '../tinker/service/engine-service.ts';
import { scriptedService } from '../tinker/service/scripted-service.ts';
import { NANO_BASE } from '../trainer/gradients/embedded/nano-adapter.ts';

const { signal } = new AbortController();

interface Opened extends OpenedPolicy {
  readonly client: TinkerTokensClient;
}

async function opened(baseUrl: string, endIds: readonly number[] = [1539]): Promise<Opened> {
  const connection = await ServiceConnection.open({ baseUrl, apiKey: 'tml-x', patienceMs: 2000 }, signal);
  const sampling = new SamplingSession({ connection, dialect: new PassDialect('auto') });
  const versions = new PolicyVersions({ version: 0, model: 'base' });
  const capabilities = { maxModelLen: 2048, tokenizerHash: null, logProbsMode: 'raw' } as const;
  const client = new TinkerTokensClient({
    sampling,
    versions,
    capabilities,
    tokenizer: await openLocalTokenizer(NANO_BASE),
    endIds,
    baseModel: 'base',
  });
  return {
    client,
    versions,
    async [Symbol.asyncDispose]() {
      await client.close();
      await sampling[Symbol.asyncDispose]();
      await connection[Symbol.asyncDispose]();
    },
  };
}

let service: EngineService;
beforeAll(async () => {
  service = await engineService();
});
afterAll(() => service[Symbol.asyncDispose]());

describe('TinkerTokensClient', () => {
  policyClientContract('over a training service', () => opened(service.url), NANO_TRAITS);

  it('samples from a version by its path, and from the base by its name', async () => {
    await using own = await opened(service.url);
    own.versions.advance({ version: 1, model: 'tinker://nobody/sampler_weights/v1' });
    await using lease = await own.client.lease(signal);
    const request = { prompt: Int32Array.of(1, 2), sampling: { temperature: 1, topP: 1 }, maxNewTokens: 2, stop: [], signal };
    await expect(lease.generate(request)).rejects.toThrow(PolicyError);
    expect(service.to('create_sampling_session').at(-1)!.json).toMatchObject({ model_path: 'tinker://nobody/sampler_weights/v1' });
  });

  it('opens another session when the service has forgotten its own', async () => {
    await using own = await opened(service.url);
    await using lease = await own.client.lease(signal);
    const request = { prompt: Int32Array.of(1, 2), sampling: { temperature: 0, topP: 1 }, maxNewTokens: 2, stop: [], signal };
    const before = await lease.generate(request);
    await service.restart();
    expect((await lease.generate(request)).ids).toEqual(before.ids);
  });

  it('refuses a sampling field that the API lacks', async () => {
    await using own = await opened(service.url);
    await using lease = await own.client.lease(signal);
    const sampling = { temperature: 1, topP: 1, extra: { min_p: 0.1 } };
    await expect(lease.generate({ prompt: Int32Array.of(1), sampling, maxNewTokens: 1, stop: [], signal })).rejects.toThrow(ConfigError);
  });

  it('cuts at the first end token that a server went past, and refuses ids of another vocabulary', async () => {
    let tokens = [5, 1539, 6];
    await using server = await scriptedService(({ route, json }) => {
      if (route === 'asample') return { request_id: 'sampled' };
      if (json?.['request_id'] !== 'sampled') return undefined;
      return { sequences: [{ stop_reason: 'length', tokens, logprobs: tokens.map(() => -1) }] };
    });
    await using own = await opened(server.url);
    await using lease = await own.client.lease(signal);
    const request = { prompt: Int32Array.of(1), sampling: { temperature: 1, topP: 1 }, maxNewTokens: 8, stop: ['a b'], signal };
    const sample = await lease.generate(request);
    expect([[...sample.ids], sample.finish, sample.stopReason]).toEqual([[5, 1539], 'stop', null]);
    // A stop string of several tokens goes as text, because the API takes no mixture.
    expect(server.to('asample')[0]!.json).toMatchObject({ sampling_params: { stop: ['a b'] } });
    tokens = [5, 99_999];
    await expect(lease.generate(request)).rejects.toThrow('backend.model is another model');
  });
});
