/** The server of the lab: a fixed list of files, and the headers that let a page compute in threads and ask nobody else. */
import { once } from 'node:events';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KERNEL_FILES, LAB_HEADERS, labApp, MODEL, MODEL_FILES, PAGE_FILES } from '../../../src/server/lab/lab-app.ts';
import { listen, type RunningServer } from '../../../src/server/listen.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const MODELS = join(import.meta.dirname, '../../../models');
const folder = new TemporaryFolder();
let server: RunningServer;

beforeAll(async () => {
  const [page, kernels] = [join(folder.path, 'page'), join(folder.path, 'kernels')];
  for (const each of [page, kernels]) mkdirSync(each);
  for (const name of PAGE_FILES) writeFileSync(join(page, name), `page ${name}`);
  for (const name of KERNEL_FILES) writeFileSync(join(kernels, name), `kernel ${name}`);
  writeFileSync(join(folder.path, 'secret.txt'), 'secret');
  symlinkSync(folder.path, join(page, 'up'));
  server = await listen(labApp({ page, models: MODELS, kernels, host: '127.0.0.1' }), { host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await server.close({ graceMs: 0 });
  folder[Symbol.dispose]();
});

const KNOWN = [
  '/',
  ...PAGE_FILES.map((name) => `/${name}`),
  ...KERNEL_FILES.map((name) => `/kernels/${name}`),
  ...MODEL_FILES.map((name) => `/models/${MODEL}/${name}`),
];

/** Sends the path as it is spelled; fetch would tidy it up. */
async function answerTo(path: string, host = '127.0.0.1'): Promise<[status: number | undefined, text: string]> {
  const [response] = (await once(request(server.url, { path, headers: { host } }).end(), 'response')) as [IncomingMessage];
  return [response.statusCode, await text(response)];
}

describe('labApp', () => {
  it.each(KNOWN)('serves %s with every header of isolation and content', async (path) => {
    const response = await fetch(server.url + path);
    expect(response.status).toBe(200);
    expect(Object.fromEntries(Object.keys(LAB_HEADERS).map((name) => [name, response.headers.get(name)]))).toEqual(LAB_HEADERS);
  });

  it('gives the bytes of the bundled model, with the types that a page needs', async () => {
    const weights = await fetch(`${server.url}/models/${MODEL}/model.safetensors`);
    expect(Buffer.from(await weights.arrayBuffer()).equals(readFileSync(join(MODELS, MODEL, 'model.safetensors')))).toBe(true);
    const typeOf = async (path: string) => (await fetch(server.url + path)).headers.get('content-type');
    expect([await typeOf('/train.js'), await typeOf('/kernels/plain.wasm'), await typeOf('/')]).toEqual([
      'text/javascript; charset=utf-8',
      'application/wasm',
      'text/html; charset=utf-8',
    ]);
  });

  it('lets no script run that is not a file of its own, and no request leave', () => {
    const policy = LAB_HEADERS['content-security-policy']!;
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe-inline|'unsafe-eval'|https?:|\*/);
  });

  it('serves nothing else, however the path is spelled', async () => {
    const known = new Set(await Promise.all(KNOWN.map(async (path) => (await answerTo(path))[1])));
    const parts = fc.constantFrom(
      '..',
      '%2e%2e',
      '.',
      'up',
      'secret.txt',
      'models',
      MODEL,
      'README.md',
      'package.json',
      '%2f',
      '\\',
      'index.html%00',
      'page',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(parts, { minLength: 1, maxLength: 5 }), async (path) => {
        const spelled = `/${path.join('/')}`;
        if (KNOWN.includes(spelled)) return;
        const [status, answer] = await answerTo(spelled);
        // `/..` is `/`.
        expect((status ?? 0) >= 400 || known.has(answer)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('refuses a page whose domain was pointed at this machine, and anything but reading', async () => {
    expect((await answerTo('/lab.json', 'evil.example'))[0]).toBe(403);
    expect((await answerTo('/lab.json', 'localhost:1'))[0]).toBe(200);
    expect((await fetch(`${server.url}/lab.json`, { method: 'POST' })).status).toBe(405);
  });

  it('leaves the headers of isolation out where it is asked to', async () => {
    const plain = labApp({ page: join(folder.path, 'page'), models: MODELS, kernels: folder.path, host: '127.0.0.1', isolated: false });
    const { headers } = await plain.request('http://127.0.0.1/');
    expect([headers.get('cross-origin-opener-policy'), headers.get('cross-origin-embedder-policy')]).toEqual([null, null]);
    expect(headers.get('content-security-policy')).toBe(LAB_HEADERS['content-security-policy']);
  });
});
