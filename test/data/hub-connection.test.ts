import { describe, expect, it } from 'vitest';
import { HubConnection } from '../../src/data/hub-connection.ts';
import { loopback, refusingUrl, sendJson } from '../transport/loopback.ts';

const repository = { type: 'dataset', name: 'owner/name' } as const;
const asked = (env: Record<string, string>) =>
  new HubConnection(repository, { env: { HF_HOME: '/nonexistent', HF_ENDPOINT: 'http://hub.test', ...env }, retryDelayMs: 1 }).call(
    'the rows',
    async ({ hubUrl, fetch }) => (await fetch(`${hubUrl}/api/datasets`)).json(),
  );

describe('HubConnection', () => {
  it('goes through the proxy of the variables', async () => {
    await using proxy = await loopback((_, response) => sendJson(response, 200, { ok: true }));
    expect(await asked({ HTTP_PROXY: proxy.url.replace('http://', 'http://me:pr0xy-s3cret@') })).toEqual({ ok: true });
    expect(proxy.requests).toEqual(['GET http://hub.test/api/datasets']);
  });

  it('names a proxy that cannot be reached, without its password', async () => {
    const url = await refusingUrl();
    const failure = (await asked({ HTTP_PROXY: url.replace('http://', 'http://me:pr0xy-s3cret@') }).catch((error: unknown) => error)) as Error;
    expect(failure.message).toMatch(
      /^Could not fetch the rows of the data set owner\/name from http:\/\/hub\.test: through the proxy .* of HTTP_PROXY: /,
    );
    expect(failure.message).toContain(url);
    expect(failure.message).not.toContain('s3cret');
  });
});
