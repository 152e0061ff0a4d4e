/** Dense indexes that were damaged or written to do harm, and embedding servers whose replies never end. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError, VfError } from '../../src/core/errors.ts';
import { openRetriever } from '../../src/registry/open-retriever.ts';
import { buildDenseIndex } from '../../src/retrieval/dense/build-dense-index.ts';
import { denseNotices } from '../../src/retrieval/dense/dense-notices.ts';
import { type DenseManifest, sealDenseManifest } from '../../src/retrieval/dense/dense-manifest.ts';
import { EmbeddingsClient } from '../../src/retrieval/dense/embeddings-client.ts';
import { CONTRACT_PASSAGES } from '../contracts/retriever.ts';
import { isLanceInstalled } from '../retrieval/dense/lance-installed.ts';
import { type ServedEmbeddings, serveEmbeddings, WORDS_MODEL } from '../retrieval/dense/served-embeddings.ts';

const { signal } = new AbortController();
const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-dense-'));
const whole = join(folder, 'whole');
const corpus = join(folder, 'corpus.jsonl');
let server: ServedEmbeddings;
let copy: string;
let made = 0;

async function build(target: string): Promise<void> {
  const embedder = await EmbeddingsClient.open({ url: server.url, model: WORDS_MODEL, signal });
  try {
    await buildDenseIndex({ corpus, target, embedder, prefixes: { query: '', passage: '' }, embeddingsUrl: server.url, signal });
  } finally {
    await embedder.close();
  }
}

async function openingFailure(): Promise<unknown> {
  try {
    const retriever = await openRetriever({ engine: 'hybrid', corpus: copy, env: {} });
    try {
      return await retriever.search(['river Zumardle'], { topk: 1, signal });
    } finally {
      await retriever.close();
    }
  } catch (error) {
    return error;
  }
}

describe.runIf(isLanceInstalled())('a dense index under attack', () => {
  beforeAll(async () => {
    server = await serveEmbeddings();
    writeFileSync(corpus, CONTRACT_PASSAGES.map((passage) => `${JSON.stringify(passage)}\n`).join(''));
    await build(whole);
  });
  beforeEach(() => {
    copy = join(folder, `copy-${++made}`);
    cpSync(whole, copy, { recursive: true });
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  it.each(['manifest.json', 'building.json'])('with a pipe or a folder in place of %s is refused at once', async (name) => {
    for (const place of ['pipe', 'folder']) {
      rmSync(join(copy, name), { recursive: true, force: true });
      rmSync(join(copy, 'manifest.json'), { recursive: true, force: true });
      if (place === 'pipe') spawnSync('mkfifo', [join(copy, name)]);
      else mkdirSync(join(copy, name));
      expect(await openingFailure()).toBeInstanceOf(ConfigError);
      await expect(build(copy)).rejects.toThrow(VfError);
    }
  });

  it.each([
    ['no object', () => []],
    ['rows that are not there', (manifest: object) => ({ ...manifest, rows: 2 ** 40 })],
    ['no rows', (manifest: object) => ({ ...manifest, rows: 0 })],
    ['another format', (manifest: object) => ({ ...manifest, format: 'vf-search-bm25' })],
    [
      'probes beyond any number',
      (manifest: object) => ({ ...manifest, search: { kind: 'ivf_pq', partitions: 1, sub_vectors: 1, nprobes: 1e300, refine: 1 } }),
    ],
    ['a URL of another scheme', (manifest: object) => ({ ...manifest, embeddings_url: 'file:///etc/passwd' })],
    ['a model that is a folder of the system', (manifest: object) => ({ ...manifest, embeddings_url: null, model: '/proc/self' })],
  ])('whose manifest holds %s is refused in one line', async (_, forge) => {
    const path = join(copy, 'manifest.json');
    const { crc32: _sum, ...content } = JSON.parse(readFileSync(path, 'utf8')) as DenseManifest;
    writeFileSync(path, JSON.stringify(sealDenseManifest(forge(content) as DenseManifest)));
    const failure = await openingFailure();
    expect([failure instanceof ConfigError || failure instanceof RetrievalError, String(failure)]).toEqual([true, expect.not.stringContaining('\n')]);
  });

  it('whose vectors are missing is refused, and never replaced without --force', async () => {
    rmSync(join(copy, 'vectors'), { recursive: true });
    expect(await openingFailure()).toMatchObject({
      message: expect.stringMatching(/is not a usable dense index: it lacks vectors\/passages\.lance/) as string,
    });
    await expect(build(copy)).rejects.toThrow(/already exists/);
    const foreign = join(folder, 'foreign');
    mkdirSync(foreign);
    writeFileSync(join(foreign, 'precious.txt'), 'mine');
    await expect(build(foreign)).rejects.toThrow(/is not an index of vf-index, so it is not replaced/);
    expect(readFileSync(join(foreign, 'precious.txt'), 'utf8')).toBe('mine');
  });

  it('with a flipped bit in any of its files is refused by name', async () => {
    const files = readdirSync(join(copy, 'vectors'), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    expect(files.length).toBeGreaterThan(2);
    for (const path of [...files.map((entry) => join(entry.parentPath, entry.name)), join(copy, 'manifest.json')]) {
      const bytes = readFileSync(path);
      const flipped = Buffer.from(bytes);
      const at = Math.floor(bytes.length / 2);
      flipped[at] = flipped[at]! ^ 4;
      writeFileSync(path, flipped);
      const name = path.slice(copy.length + 1);
      expect([name, String(await openingFailure())]).toEqual([
        name,
        expect.stringMatching(/is damaged: its checksum differs|missing or wrong fields|is not JSON/),
      ]);
      writeFileSync(path, bytes);
    }
  });

  it('with a part of another index, or a further file, is refused', async () => {
    const other = join(folder, `other-${made}`);
    writeFileSync(corpus, CONTRACT_PASSAGES.map((passage) => `${JSON.stringify({ ...passage, contents: `OTHER ${passage.contents}` })}\n`).join(''));
    await build(other);
    for (const part of ['vectors', 'bm25']) {
      cpSync(join(copy, part), join(copy, `own-${part}`), { recursive: true });
      rmSync(join(copy, part), { recursive: true });
      cpSync(join(other, part), join(copy, part), { recursive: true });
      expect(String(await openingFailure())).toMatch(/is not a usable dense index: (?:it lacks vectors|its bm25 is an index of another corpus)/);
      rmSync(join(copy, part), { recursive: true });
      cpSync(join(copy, `own-${part}`), join(copy, part), { recursive: true });
    }
    writeFileSync(join(copy, 'vectors/stranger'), '');
    expect(String(await openingFailure())).toContain('vectors/stranger does not belong to it');
    spawnSync('mkfifo', [join(copy, 'vectors/pipe')]);
    expect(String(await openingFailure())).toContain('is a pipe');
  });

  it('of an older version, without checksums, is searched with a notice', async () => {
    expect(denseNotices(copy)).toEqual([]);
    const path = join(copy, 'manifest.json');
    const { files: _, crc32: __, ...older } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    writeFileSync(path, JSON.stringify(older));
    expect(denseNotices(copy)).toEqual([expect.stringContaining('its vectors have no checksums')]);
    expect(await openingFailure()).toMatchObject([[{ id: '1' }]]);
  });

  it('is searched after all of this', async () => {
    expect(await openingFailure()).toMatchObject([[{ id: '1' }]]);
  });
});

describe('a server of embeddings that attacks', () => {
  it.each([
    ['an answer without end', endless],
    ['an answer nested without end', nested],
  ])('is refused for %s', async (_, answer) => {
    await using attacker = await serveEmbeddings({ before: (__, response) => (answer(response), true) });
    const options = { url: attacker.url, model: WORDS_MODEL, maxResponseBytes: 2 ** 20, maxRetries: 0, signal };
    const client = await EmbeddingsClient.open(options);
    await expect(client.embed(['a'], signal)).rejects.toThrow(RetrievalError);
    await client.close();
  });
});

function nested(response: NodeJS.WritableStream): void {
  response.end(`{"data": ${'['.repeat(200_000)}`);
}

function endless(response: NodeJS.WritableStream): void {
  const piece = Buffer.alloc(2 ** 16, ' ');
  const write = (): void => {
    while (response.writable && response.write(piece));
    if (response.writable) response.once('drain', write);
  };
  response.on('error', () => {});
  write();
}
