import { describe, expect, it } from 'vitest';
import { RemoteServers } from '../../src/launch/remote-servers.ts';
import type { PolicyServers } from '../../src/trainer/weight-publisher.ts';
import { type Loopback, loopback, refusingUrl, sendJson } from '../transport/loopback.ts';

const signal = new AbortController().signal;
const KEY = 'sk-remote-0123456789';

interface Manner {
  readonly models: readonly string[];
  /** Answers of /health before it is healthy. */
  readonly sickFor?: number;
  readonly health?: number;
}

function replica({ models, sickFor = 0, health = 200 }: Manner): Promise<Loopback> {
  let asked = 0;
  return loopback((request, response) => {
    if (request.url === '/health') return sendJson(response, asked++ < sickFor ? 503 : health, {});
    if (request.headers.authorization !== `Bearer ${KEY}`) return sendJson(response, 401, { error: `no ${request.headers.authorization}` });
    return sendJson(response, 200, { data: models.map((id) => ({ id })) });
  });
}

describe('RemoteServers', () => {
  it('waits until a replica is healthy, and says once that it waits', async () => {
    await using one = await replica({ models: ['nano', 'v1'] });
    await using two = await replica({ models: ['nano', 'v1'], sickFor: 2 });
    const events: string[] = [];
    await using servers = new RemoteServers({
      baseUrls: [`${one.url}/v1`, two.url],
      apiKey: KEY,
      deadlineMs: 20_000,
      onEvent: (text) => events.push(text),
    });
    const known: PolicyServers = servers;
    expect(known.replicas).toEqual([one.url, two.url]);
    await Promise.all(known.replicas.map((each) => known.revive(each, signal)));
    expect(two.requests).toEqual(['GET /health', 'GET /health', 'GET /health', 'GET /v1/models']);
    expect(events).toEqual([expect.stringMatching(/waiting up to 20 s for http.*503/) as string, `${two.url} answers again`]);
  });

  it('treats the list of models as health when a gateway has no such route', async () => {
    await using one = await replica({ models: ['nano'], health: 404 });
    await using servers = new RemoteServers({ baseUrls: [one.url], apiKey: KEY, deadlineMs: 20_000 });
    await servers.revive(one.url, signal);
    expect(one.requests).toEqual(['GET /health', 'GET /v1/models']);
  });

  it('gives up at the deadline and says what it met', async () => {
    const url = await refusingUrl();
    await using servers = new RemoteServers({ baseUrls: [url], deadlineMs: 600 });
    await expect(servers.revive(url, signal)).rejects.toMatchObject({
      name: 'PolicyError',
      message: expect.stringMatching(/within 0\.6 s: .*ECONNREFUSED.*Restart the server\. If the run has ended/) as string,
    });
  });

  it('does not wait where waiting cannot help, nor shows its key', async () => {
    await using one = await replica({ models: ['nano'] });
    const key = 'sk-wrong-0123456789';
    await using servers = new RemoteServers({ baseUrls: [one.url], apiKey: key, deadlineMs: 600_000 });
    const failure = await servers.revive(one.url, signal).catch((e: unknown) => e as Error);
    expect(failure).toMatchObject({ name: 'PolicyError', message: expect.stringContaining('rejected the API key') as string });
    expect((failure as Error).message).not.toContain(key);
  });

  it('can be cancelled', async () => {
    const url = await refusingUrl();
    await using servers = new RemoteServers({ baseUrls: [url], deadlineMs: 600_000 });
    await expect(servers.revive(url, AbortSignal.timeout(50))).rejects.toMatchObject({ name: 'CancelledError' });
  });
});
