import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { openWebSearch, WEB_PROVIDERS, type WebSearchOptions } from '../../src/registry/open-web-search.ts';
import { loopback, sendJson } from '../transport/loopback.ts';

const signal = new AbortController().signal;
const ENV = { SERPER_API_KEY: 'k-serper', GOOGLE_API_KEY: 'k-google', GOOGLE_CSE_ID: 'cx' };
const ADDRESS = { serper: 'SERPER_BASE_URL', google: 'GOOGLE_CSE_BASE_URL', searxng: 'SEARXNG_URL' } as const;

const answering = () =>
  loopback((_, response) => {
    const result = { title: 'T', snippet: 's', content: 's' };
    sendJson(response, 200, { organic: [result], items: [result], results: [result] });
  });

describe('openWebSearch', () => {
  it.each(WEB_PROVIDERS)('opens %s with the keys and addresses of the environment, and keeps what it found', async (provider) => {
    await using server = await answering();
    const retriever = await openWebSearch({ provider, env: { ...ENV, [ADDRESS[provider]]: server.url } });
    const ask = () => retriever.search(['q', 'q', 'p'], { topk: 1, signal });
    const found = [{ contents: '"T"\ns' }];
    expect(await ask()).toEqual([found, found, found]);
    await ask();
    expect(server.requests).toHaveLength(2);
    expect(retriever.name).toBe(`${provider} (${server.url})`);
    await retriever.close();
  });

  it('prefers what it is given to the environment, spaces requests out and forgets the oldest', async () => {
    await using server = await answering();
    const options: WebSearchOptions = {
      provider: 'searxng',
      baseUrl: server.url,
      perSecond: 100,
      cacheEntries: 1,
      env: { SEARXNG_URL: 'http://127.0.0.1:9' },
    };
    const retriever = await openWebSearch(options);
    const start = performance.now();
    for (const query of ['a', 'b', 'a']) await retriever.search([query], { topk: 1, signal });
    expect(performance.now() - start).toBeGreaterThan(17);
    expect(server.requests).toHaveLength(3);
    await retriever.close();
  });

  it.each([
    [{ provider: 'serper' }, /SERPER_API_KEY/],
    [{ provider: 'google' }, /GOOGLE_API_KEY/],
    [{ provider: 'google', apiKey: 'k' }, /GOOGLE_CSE_ID/],
    [{ provider: 'searxng' }, /SEARXNG_URL/],
    [{ provider: 'bing' }, /must be one of serper, google, searxng, got "bing"/],
    [{ provider: 'searxng', baseUrl: 'http://x', perSecond: 0 }, /rate must be above 0/],
  ])('refuses %j', async (options, message) => {
    const failure = await openWebSearch({ ...options, env: {} } as WebSearchOptions).catch((error: unknown) => error as Error);
    expect(failure).toBeInstanceOf(ConfigError);
    expect((failure as Error).message).toMatch(message);
  });
});
