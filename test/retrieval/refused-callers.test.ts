/** What every client of a server of others says of a 401 or 403, by the body: only a server that speaks of the key is said to refuse it. */
import type { ServerResponse } from 'node:http';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { fetchHubSplit, parseHubName } from '../../src/data/hub.ts';
import { HubPush } from '../../src/data/hub-push.ts';
import { openPageRetriever } from '../../src/registry/open-page-retriever.ts';
import { EmbeddingsClient } from '../../src/retrieval/dense/embeddings-client.ts';
import { GoogleRetriever } from '../../src/retrieval/google.ts';
import { SearxngRetriever } from '../../src/retrieval/searxng.ts';
import { SerperRetriever } from '../../src/retrieval/serper.ts';
import type { Retriever } from '../../src/retrieval/retriever.ts';
import { loopback, sendJson } from '../transport/loopback.ts';

const signal = new AbortController().signal;
const folder = mkdtempSync(join(tmpdir(), 'vf-refused-'));
afterAll(() => rmSync(folder, { recursive: true }));
const KEY = 'hf_0123456789abcdef';

async function closing<T extends { close(): Promise<void> }>(client: T, use: (client: T) => Promise<unknown>): Promise<unknown> {
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}
const searched = (retriever: Retriever) => closing(retriever, (open) => open.search(['q'], { topk: 1, signal }));
const hub = (url: string) => ({ env: { HF_ENDPOINT: url, HF_HOME: folder, HF_TOKEN: KEY }, retryDelayMs: 1 });

/** How each asks the server at the URL, and what it says if the server refuses the key. */
const CLIENTS: Readonly<Record<string, { ask: (url: string) => Promise<unknown>; key: RegExp; page?: RegExp }>> = {
  'a search of pages (post)': {
    ask: (url) => openPageRetriever({ url: `${url}/search`, form: 'post', env: { SEARCH_API_KEY: KEY } }),
    key: /refuses the key in SEARCH_API_KEY/,
  },
  'a search of pages (either form)': {
    ask: (url) => openPageRetriever({ url: `${url}/search`, env: {} }),
    key: /demands a key\. Set SEARCH_API_KEY/,
  },
  'a search of pages (retrieve)': {
    ask: (url) => openPageRetriever({ url: `${url}/retrieve`, env: { SEARCH_API_KEY: KEY } }),
    key: /refuses the key in SEARCH_API_KEY/,
  },
  'a search of pages (pooling)': {
    ask: (url) =>
      openPageRetriever({
        url: `${url}/pooling`,
        model: 'm',
        pictures: async () => ({ pages: [], picture: () => Promise.reject(new Error('none')) }),
        env: { SEARCH_API_KEY: KEY },
      }),
    key: /refuses the key in SEARCH_API_KEY/,
  },
  Serper: { ask: (baseUrl) => searched(new SerperRetriever({ baseUrl, apiKey: KEY })), key: /; check SERPER_API_KEY$/ },
  Google: {
    ask: (baseUrl) => searched(new GoogleRetriever({ baseUrl, apiKey: KEY, searchEngineId: 'x' })),
    key: /; check GOOGLE_API_KEY and GOOGLE_CSE_ID$/,
  },
  // It refuses the form with a page of its own.
  SearXNG: {
    ask: (baseUrl) => searched(new SearxngRetriever({ baseUrl })),
    key: /check the password$/,
    page: /allow the format json .* check the password, or a firewall or proxy/,
  },
  embeddings: {
    ask: async (url) => {
      const headers = { authorization: `Bearer ${KEY}` };
      return closing(await EmbeddingsClient.open({ url, model: 'm', headers, signal }), (client) => client.embed(['text'], signal));
    },
    key: /40[13]/,
  },
  'a download from a hub': {
    ask: (url) => fetchHubSplit(parseHubName('org/name')!, 'train', { ...hub(url), cacheDir: folder }),
    key: /the token in HF_TOKEN is invalid or has no access/,
  },
  'a push to a hub': {
    ask: (url) => new HubPush({ type: 'dataset', name: 'me/runs' }, hub(url)).upload([{ path: 'x', content: { text: 'x' } }], 'x'),
    key: /the token is invalid or may not write to me/,
  },
};

const SAYS_KEY = /refuses the key|demands a key|check \w+_API_KEY|token in HF_TOKEN is invalid|token is invalid|check the password$/;

/** By what the server speaks of. */
const REFUSALS: readonly [string, 'key' | 'page' | 'other', number, (response: ServerResponse) => void][] = [
  ['nothing', 'key', 401, (r) => sendJson(r, 401, {})],
  ['the key', 'key', 403, (r) => sendJson(r, 403, { error: 'Invalid API key' })],
  ['a folder', 'other', 403, (r) => sendJson(r, 403, { detail: 'The folder /corpus may not be read by this server' })],
  ['a quota', 'other', 403, (r) => sendJson(r, 403, { error: { message: 'Private repository storage limit reached', code: 403 } })],
  ['a region', 'other', 403, (r) => sendJson(r, 403, { error: 'Not available in your country' })],
  ['a missing scope', 'other', 403, (r) => sendJson(r, 403, { message: 'The scope search.read is missing' })],
  [
    'nothing, as the page of a firewall',
    'page',
    403,
    (r) => r.writeHead(403, { 'content-type': 'text/html' }).end('<html><title>Attention Required!</title></html>'),
  ],
];

describe.each(Object.entries(CLIENTS))('%s', (_, { ask, key, page = /firewall or proxy/ }) => {
  it.each(REFUSALS)('says that the key is at fault only where the server does: it speaks of %s', async (_what, kind, status, refuse) => {
    await using server = await loopback((_request, response) => refuse(response));
    const message = await ask(server.url).then(
      () => 'no error',
      (error: Error) => error.message,
    );
    expect(message).toContain(String(status));
    expect(message).not.toContain(KEY);
    expect(message).toMatch({ key, page, other: /./ }[kind]);
    expect({ message, isOfKey: SAYS_KEY.test(message) && kind !== 'key' }).toEqual({ message, isOfKey: false });
  });
});
