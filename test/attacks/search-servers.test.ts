/** Servers that find pages (`search_url` of visual-rag) and send what no search finds, without end, or elsewhere. */
import { mkdtempSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadEnvironment } from 'vf-search/environments/visual-rag';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError, VfError } from '../../src/core/errors.ts';
import { openPageRetriever, type SearchForm } from '../../src/registry/open-page-retriever.ts';
import { PageServer } from '../../src/retrieval/page-server.ts';
import { PoolingEncoder } from '../../src/retrieval/vectors/pooling-encoder.ts';
import { playScript } from '../environments/play-script.ts';
import { loopback, readText, sendJson, until } from '../transport/loopback.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-search-'));
afterAll(() => rmSync(folder, { recursive: true }));
const signal = new AbortController().signal;
const KEY = 'sk-search-key-of-this-test';
const PICTURE = { bytes: Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), mediaType: 'image/png' };

/** A good answer of each form with these pages. */
const answers: Record<Exclude<SearchForm, 'pooling'>, (pages: readonly unknown[]) => unknown> = {
  post: (pages) => [{ request_idx: 0, results: pages.map((page) => ({ image_file: page })) }],
  get: (pages) => [pages.map((page) => ({ image_file: page }))],
  retrieve: (pages) => ({ result: [pages.map((id) => ({ document: { id, contents: 'x' } }))] }),
};
const FORMS = Object.keys(answers) as (keyof typeof answers)[];

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

/** What opening a search at such a server comes to. */
async function opening(form: SearchForm, handler: Handler, env: Readonly<Record<string, string>> = {}): Promise<unknown> {
  await using server = await loopback(handler);
  const url = `${server.url}/${form === 'retrieve' || form === 'pooling' ? form : 'search'}`;
  const pictures = () => Promise.resolve({ pages: ['a_1'], picture: () => Promise.resolve(PICTURE) });
  const opened = await openPageRetriever({ url, form, pictures, indexFolder: join(folder, 'index'), env }).catch((error: unknown) => error);
  if (!(opened instanceof Error)) await (opened as Awaited<ReturnType<typeof openPageRetriever>>).close();
  return opened;
}

/** Type and length of an error's message, which must be one short line. */
const shape = (error: unknown) =>
  error instanceof VfError ? { error: error.name, isOneLine: !error.message.includes('\n') && error.message.length < 1500 } : { error };
const FAILED = { error: 'RetrievalError', isOneLine: true };

describe.each(FORMS)('a search server of form %s', (form) => {
  it.each<[string, unknown]>([
    ['null', null],
    ['text', 'pages'],
    ['a number', 7],
    ['an object of keys of every object', JSON.parse('{"__proto__": [], "constructor": {}}')],
    ['lists that are nested without end', null],
  ])('that answers %s is refused', async (title, body) => {
    const deep = `${'['.repeat(500_000)}${']'.repeat(500_000)}`;
    const handler: Handler = (_, response) => (title.startsWith('lists') ? response.end(deep) : sendJson(response, 200, body));
    expect(shape(await opening(form, handler))).toEqual(FAILED);
  });

  it('that sends 100 MB, announced or not, is cut off', async () => {
    for (const announced of [true, false]) {
      let sent = 0;
      const flood: Handler = async (_, response) => {
        response.writeHead(200, { 'content-type': 'application/json', ...(announced && { 'content-length': 100 * 2 ** 20 }) });
        const piece = Buffer.alloc(2 ** 20, ' ');
        for (; sent < 100 && !response.destroyed; sent++)
          if (!response.write(piece)) await until(() => !response.writableNeedDrain || response.destroyed);
        response.end();
      };
      expect(shape(await opening(form, flood))).toEqual(FAILED);
      expect(sent).toBeLessThan(90);
    }
  });

  it('that sends the client elsewhere is not followed', async () => {
    await using other = await loopback((_, response) => sendJson(response, 200, answers[form](['a_1'])));
    for (const status of [301, 302, 307, 308]) {
      const redirect: Handler = (_, response) => response.writeHead(status, { location: `${other.url}/search` }).end();
      expect(shape(await opening(form, redirect, { SEARCH_API_KEY: KEY }))).toEqual(FAILED);
    }
    expect(other.requests).toEqual([]);
  });

  it('that repeats the key gets no part of it into an error or its causes', async () => {
    const leak: Handler = (_, response) => sendJson(response, 400, { detail: `${'x'.repeat(120)} Bearer ${KEY} ${KEY}` });
    const error = await opening(form, leak, { SEARCH_API_KEY: KEY });
    expect(shape(error)).toEqual(FAILED);
    for (let e = error; e instanceof Error; e = e.cause) expect(String(e.stack)).not.toContain('sk-search');
  });

  it.each<[string, unknown]>([
    ['a page that climbs', '../../../../etc/passwd'],
    ['a page that climbs the other way', '..\\..\\etc\\passwd'],
    ['an absolute path', '/etc/passwd'],
    ['an encoded path', '%2e%2e%2fetc%2fpasswd'],
    ['a zero byte', 'deck_1_1\0'],
    ['a key of every object', '__proto__'],
    ['a page that is only dots', '..'],
    ['a number', 7],
    ['a number beyond all numbers', 1e308],
  ])('that finds %s gives an episode without a page, and no observation of it', async (_, page) => {
    let isOpen = false;
    await using server = await loopback(async (request, response) => {
      await readText(request);
      sendJson(response, 200, answers[form](isOpen ? [page] : []));
    });
    const environment = await loadEnvironment(
      { search_url: `${server.url}/${form === 'retrieve' ? form : 'search'}`, search_form: form },
      { env: {} },
    );
    isOpen = true;
    const { played } = await playScript(environment, ['<think>a</think><search>total revenue</search>']);
    await environment.close();
    expect(played.error).toMatchObject({ type: 'RetrievalError' });
    expect(played.state).toMatchObject({ pages: [] });
    expect(played.segments.map(({ text }) => text).join('')).not.toMatch(/passwd|root:/);
  });
});

describe('a search server that never ends its answer', () => {
  /** Sends a space now and then. */
  const trickle: Handler = (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const timer = setInterval(() => response.write(' '), 10);
    response.once('close', () => clearInterval(timer));
  };
  it.each(['post', 'get'] as const)('has as long as any other: form %s', async (form) => {
    await using server = await loopback(trickle);
    const retriever = new PageServer({ url: `${server.url}/search`, form, timeoutMs: 200, maxRetries: 1, baseDelayMs: 1 });
    const error = await retriever.search(['q'], { topk: 1, signal }).catch((thrown: unknown) => thrown);
    await retriever.close();
    expect(error).toBeInstanceOf(RetrievalError);
    expect((error as Error).message).toMatch(/no answer within 200 ms/);
    expect(server.requests).toHaveLength(2);
  });

  it('has as long where it makes vectors', async () => {
    await using server = await loopback(trickle);
    const error = await PoolingEncoder.open({ url: server.url, timeoutMs: 200, signal }).catch((thrown: unknown) => thrown);
    expect(shape(error)).toEqual(FAILED);
  });
});

describe('a server of vectors', () => {
  const models = { data: [{ id: 'm' }] };
  const vectors =
    (metadata: unknown, body: Buffer = Buffer.alloc(8)): Handler =>
    async (request, response) => {
      if (request.url!.endsWith('/models')) return sendJson(response, 200, models);
      await readText(request);
      response.writeHead(200, { metadata: typeof metadata === 'string' ? metadata : JSON.stringify(metadata) }).end(body);
    };
  const item = (change: object) => ({ data: [{ index: 0, embed_dtype: 'float16', start: 0, end: 8, shape: [2, 2], ...change }] });

  it.each<[string, Handler]>([
    ['a shape beyond the bytes', vectors(item({ shape: [2, 2 ** 40], end: 2 ** 42 }))],
    ['a shape beyond all numbers', vectors(item({ shape: [1e300, 1e300], end: null }))],
    ['a negative shape', vectors(item({ shape: [-2, -2] }))],
    ['a place before the bytes', vectors(item({ start: -8, end: 0 }))],
    ['places that are texts', vectors(item({ start: '0', end: '8' }))],
    ['infinities', vectors(item({}), Buffer.alloc(8, 0x7c))],
    ['no places', vectors('x')],
    ['places that are nested without end', vectors('['.repeat(5000))],
    ['a list of other length', vectors({ data: [] })],
  ])('that sends %s is refused', async (_, handler) => {
    expect(shape(await opening('pooling', handler))).toEqual(FAILED);
  });

  it.each<[string, unknown]>([
    ['a hundred thousand models', { data: Array.from({ length: 100_000 }, (_, i) => ({ id: `model-${i}` })) }],
    ['a name of a megabyte', { data: [{ id: 'x'.repeat(2 ** 20) }] }],
    ['names that are numbers', { data: [{ id: 7 }] }],
    ['no list', { data: 'm' }],
  ])('that serves %s is refused in one short line', async (_, body) => {
    expect(shape(await opening('pooling', (__, response) => sendJson(response, 200, body)))).toEqual(FAILED);
  });
});

describe('SEARCH_API_KEY', () => {
  it('is refused, and its value not shown, if it cannot be sent in a header', async () => {
    for (const key of ['two words here', 'line\nbreak-here', 'kéy-secret']) {
      const error = await opening('post', () => {}, { SEARCH_API_KEY: key });
      expect(error).toBeInstanceOf(ConfigError);
      expect((error as Error).message).not.toContain(key.slice(-4));
    }
  });
});
