import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, RetrievalError } from 'vf-search';
import { loadEnvironment, pageName } from 'vf-search/environments/visual-rag';
import { describe, expect, it } from 'vitest';
import type { Passage, Retriever } from '../../../src/retrieval/retriever.ts';
import { servePages } from '../../retrieval/served-pages.ts';
import { servePooling } from '../../retrieval/vectors/served-pooling.ts';
import { loopback, refusingUrl, sendJson } from '../../transport/loopback.ts';
import { playScript } from '../play-script.ts';

const turns = ['<think>a</think><search>total revenue</search>', '<think>b</think><search_complete>true</search_complete>'];

/** A retriever that finds the named pages for any query. */
function finding(...pages: readonly string[]): Retriever {
  const list: Passage[] = pages.map((id) => ({ id, contents: id }));
  return { name: 'pages', search: (queries) => Promise.resolve(queries.map(() => list)), close: () => Promise.resolve() };
}

async function playedOver(found: readonly string[], form: 'post' | 'get', args: object = {}) {
  await using server = await servePages(finding(...found), form);
  const environment = await loadEnvironment({ search_url: server.url, ...args });
  try {
    return { ...(await playScript(environment, turns)), requests: server.requests, retriever: environment.provenance?.['retriever'] };
  } finally {
    await environment.close();
  }
}

describe('the argument search_url', () => {
  it.each(['post', 'get'] as const)('searches a server of form %s, found out or named', async (form) => {
    for (const args of [{}, { search_form: form }]) {
      const { played, retriever } = await playedOver(['deck_1_3', 'deck_1_1'], form, args);
      expect(played.error).toBeNull();
      expect(played.state).toMatchObject({ pages: ['deck_1_3'], found: [['deck_1_3', 'deck_1_1']] });
      expect(retriever).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/search$/);
    }
  });

  it.each(['deck_9_999', '../../etc/passwd', 'deck_1_1\u0000', '__proto__'])(
    'makes the page %j of a server, which the data set does not have, an error and no observation',
    async (page) => {
      const { played } = await playedOver([page], 'post');
      expect(played.error).toMatchObject({ type: 'RetrievalError', phase: 'environment' });
      expect(played.error!.message).toMatch(/which the data set does not have\. Use a retriever over the same pages\.$/);
      expect(played.state).toMatchObject({ pages: [] });
    },
  );

  it('makes a server that fails an error without a reward, never an empty search', async () => {
    let failing = false;
    await using server = await loopback((_, response) =>
      failing ? sendJson(response, 400, { detail: 'broken' }) : sendJson(response, 200, [{ request_idx: 0, results: [] }]),
    );
    const environment = await loadEnvironment({ search_url: `${server.url}/search` });
    failing = true;
    const { played } = await playScript(environment, turns);
    expect(played.error).toMatchObject({ type: 'RetrievalError' });
    await environment.close();
  });

  it('says before the first episode that nothing answers there', async () => {
    await expect(loadEnvironment({ search_url: `${await refusingUrl()}/search` })).rejects.toThrow(RetrievalError);
    await expect(loadEnvironment({ search_url: 'search' })).rejects.toThrow(ConfigError);
  });

  it('searches the pictures of the pages by their vectors, as many of them as the sidecar names', async () => {
    await using server = await servePooling();
    const folder = mkdtempSync(join(tmpdir(), 'vf-pages-'));
    try {
      for (const page of ['a_1', 'a_2', 'a_3'])
        writeFileSync(
          join(folder, `${page}.png`),
          Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.from(page === 'a_2' ? 'total revenue' : 'profit')]),
        );
      const rows = [
        { id: 'q1', extra_info: { question: 'What is the revenue?', file_name: 'a.pdf', reference_page: [2] }, reward_model: { ground_truth: '5' } },
      ];
      const pages = ['a_1', 'a_2', 'a_3'].map((id) => ({ id, width: 100, height: 100, words: [['5', 1, 1, 50, 50, 0]] }));
      const written = (name: string, records: readonly object[]) => {
        writeFileSync(join(folder, name), records.map((record) => `${JSON.stringify(record)}\n`).join(''));
        return join(folder, name);
      };
      const args = {
        dataset: written('rows.jsonl', rows),
        pages: written('pages.jsonl', pages),
        images: folder,
        observations: 'ocr',
        search_url: `${server.url}/pooling`,
        search_model: 'words',
        search_index: join(folder, 'index'),
      };
      const notes: string[] = [];
      const environment = await loadEnvironment(args, { note: (line) => notes.push(line) });
      // Pages 1 and 3 have one picture.
      expect([notes.at(0), notes.at(-1)]).toEqual(['making vectors of pages, 3 in all', 'vectors of 3 pages are ready; 2 were made now']);
      notes.length = 0;
      await (await loadEnvironment(args, { note: (line) => notes.push(line) })).close();
      expect(notes).toEqual([]);
      const { played } = await playScript(environment, turns);
      expect(played.state).toMatchObject({ pages: ['a_2'], found: [['a_2', 'a_1', 'a_3']] });
      expect(environment.provenance?.['retriever']).toMatch(/^words \(http.*\/pooling\)$/);
      await environment.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  describe('with SEARCH_API_KEY', () => {
    const KEY = 'sk-key-of-the-search';
    /** Answers in both forms, to any caller with the key. */
    const guarded = () =>
      loopback((request, response) => {
        if (request.headers.authorization !== `Bearer ${KEY}`) return sendJson(response, 401, { detail: `no: ${request.headers.authorization}` });
        const results = [{ image_file: 'deck_1_3.jpg' }];
        const lists = request.url === '/retrieve' ? { result: [[{ document: { id: 'deck_1_3', contents: 'x' } }]] } : [{ request_idx: 0, results }];
        return sendJson(response, 200, request.method === 'GET' ? [results] : lists);
      });

    it.each([
      ['search', 'post'],
      ['search', 'get'],
      ['retrieve', 'retrieve'],
    ] as const)('sends it as a bearer token to /%s, form %s', async (route, form) => {
      await using server = await guarded();
      const environment = await loadEnvironment({ search_url: `${server.url}/${route}`, search_form: form }, { env: { SEARCH_API_KEY: KEY } });
      const { played } = await playScript(environment, turns);
      await environment.close();
      expect(played.state).toMatchObject({ pages: ['deck_1_3'] });
      expect(JSON.stringify(environment.provenance)).not.toContain(KEY);
    });

    it.each(['search', 'retrieve', 'pooling'])('is asked for where /%s demands a key, and where it refuses one', async (route) => {
      await using server = await guarded();
      const load = (env: Readonly<Record<string, string>>) =>
        loadEnvironment({ search_url: `${server.url}/${route}` }, { env }).catch((error: unknown) => error as RetrievalError);
      const [without, wrong] = [await load({}), await load({ SEARCH_API_KEY: 'sk-another-key' })] as RetrievalError[];
      for (const error of [without, wrong]) expect(error).toMatchObject({ name: 'RetrievalError', status: 401 });
      expect(without!.message).toMatch(/: 401 .*\. The server demands a key\. Set SEARCH_API_KEY, in the environment or in \.\/\.env\.$/);
      expect(wrong!.message).toMatch(/ The server refuses the key in SEARCH_API_KEY\. Correct it, in the environment or in \.\/\.env\.$/);
      expect(wrong!.message).not.toContain('another');
    });

    it('stands back behind the credentials of the URL', async () => {
      const seen: unknown[] = [];
      await using server = await loopback((request, response) => {
        seen.push(request.headers.authorization);
        sendJson(response, 200, [{ request_idx: 0, results: [] }]);
      });
      const environment = await loadEnvironment(
        { search_url: `${server.url.replace('//', '//me:secret@')}/search` },
        { env: { SEARCH_API_KEY: KEY } },
      );
      await environment.close();
      expect(seen).toEqual([`Basic ${Buffer.from('me:secret').toString('base64')}`]);
    });
  });

  it('refuses a form without a URL, and an unknown one', async () => {
    await expect(loadEnvironment({ search_form: 'get' })).rejects.toThrow(/no search_url is set/);
    await expect(loadEnvironment({ search_index: 'x' })).rejects.toThrow(/^search_index is about the server at search_url, but no search_url is set/);
    await expect(loadEnvironment({ search_url: 'http://127.0.0.1:1/search', search_form: 'grpc' })).rejects.toThrow(
      /search_form must be "retrieve" or/,
    );
  });
});

describe('pageName', () => {
  it.each([
    ['./search_engine/corpus/img/deck_1.pdf_3.jpg', 'deck_1.pdf_3'],
    ['deck_1_3.png', 'deck_1_3'],
    ['/a/deck_1_3.JPEG', 'deck_1_3'],
    ['a/b.jpg.png', 'b'],
    ['deck_1_3', 'deck_1_3'],
    ['..', '..'],
  ])('reads %j as %j', (path, name) => {
    expect(pageName(path)).toBe(name);
  });
});
