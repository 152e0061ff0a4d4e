import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listen } from '../../src/server/listen.ts';
import { retrievalApp } from '../../src/server/retrieval-app.ts';
import { WordRetriever } from '../retrieval/word-retriever.ts';
import { until } from '../transport/loopback.ts';
import { type AttackedServer, openConnections, sendRaw, startServer } from './attacked-process.ts';
import { ask, type HttpTarget, withstandsHttpAttacks } from './http-attacks.ts';

let server: AttackedServer;
beforeAll(async () => {
  server = await startServer(['retrieve', '--corpus', 'fact-world']);
});
afterAll(() => server[Symbol.asyncDispose]());

const target: HttpTarget = {
  server: () => server,
  path: '/retrieve',
  good: { queries: ['mayor'], topk: 1 },
  refusals: { notJson: 422, wrongType: 415 },
};
const HALF = 'POST /retrieve HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"que';

describe('vf-serve retrieve under attack', () => {
  withstandsHttpAttacks(target);

  it('refuses requests whose answer would fill the memory', async () => {
    const queries = Array.from({ length: 16_000 }, () => 'mayor');
    expect((await ask(target, JSON.stringify({ queries, topk: 1000 }))).status).toBe(422);
    expect((await ask(target, JSON.stringify({ queries: Array.from({ length: 20_000 }, () => 'a') }))).status).toBe(422);
    expect((await ask(target, JSON.stringify({ queries: ['mayor'], topk: 1e9 }))).status).toBe(422);
  });

  it('searches for queries of any size and shape', async () => {
    for (const query of ['a'.repeat(4_000_000), 'word '.repeat(200_000), '\u0000\ud800', '\u0301'.repeat(100_000), 'עברית'.repeat(50_000)])
      expect((await ask(target, JSON.stringify({ queries: [query], topk: 1 }))).status).toBe(200);
  });

  it('gives up a body that does not arrive in time (408), and the connection with it', async () => {
    const app = retrievalApp({ retriever: new WordRetriever([]), bodyTimeoutMs: 50 });
    const slow = await listen(app, { host: '127.0.0.1', port: 0 });
    const { port } = new URL(slow.url);
    expect(await sendRaw(Number(port), HALF, { waits: true })).toMatch(/^HTTP\/1\.1 408 /);
    await slow.close({ graceMs: 0 });
  });

  it('ends at the second signal while half-sent bodies hold their connections', async () => {
    await using own = await startServer(['retrieve', '--corpus', 'fact-world']);
    await using _ = await openConnections(own.port, 10, HALF);
    own.child.kill('SIGTERM');
    await until(() => own.stderr.includes('finishing pending requests'));
    own.child.kill('SIGTERM');
    expect(await own.ended).toEqual([143, null]);
  });
});
