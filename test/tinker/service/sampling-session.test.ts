import { describe, expect, it } from 'vitest';
import { CancelledError } from '../../../src/core/errors.ts';
import { PassDialect } from '../../../src/tinker/service/pass-dialect.ts';
import { SamplingSession } from '../../../src/tinker/service/sampling-session.ts';
import { ServiceConnection } from '../../../src/tinker/service/service-connection.ts';
import { scriptedService } from './scripted-service.ts';

const ASKED = { weights: { baseModel: 'base' }, prompt: Int32Array.of(1), maxTokens: 1, temperature: 1 };

describe('SamplingSession', () => {
  it('goes on opening for the others when the caller that began to open it is cancelled', async () => {
    const asked = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    await using server = await scriptedService(({ route }) => {
      if (route === 'create_session') {
        asked.resolve();
        return released.promise.then(() => ({ session_id: 's1' }));
      }
      if (route === 'asample') return { request_id: 'f1' };
      return route === 'retrieve_future' ? { sequences: [{ tokens: [7], logprobs: [-1], stop_reason: 'length' }] } : undefined;
    });
    const { signal } = new AbortController();
    await using connection = await ServiceConnection.open({ baseUrl: server.url, apiKey: 'tml-key' }, signal);
    await using sampling = new SamplingSession({ connection, dialect: new PassDialect('auto') });
    const caller = new AbortController();
    const first = sampling.sample({ ...ASKED, signal: caller.signal });
    const second = sampling.sample({ ...ASKED, signal });
    await asked.promise;
    caller.abort();
    await expect(first).rejects.toThrow(CancelledError);
    released.resolve();
    expect([...(await second).sequences[0]!.tokens]).toEqual([7]);
    expect(server.to('create_session')).toHaveLength(1);
  });
});
