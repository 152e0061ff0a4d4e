import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../../src/core/errors.ts';
import { openRetriever } from '../../../src/registry/open-retriever.ts';
import { type DenseManifest, sealDenseManifest } from '../../../src/retrieval/dense/dense-manifest.ts';
import { DenseTable } from '../../../src/retrieval/dense/dense-table.ts';
import type { Retriever } from '../../../src/retrieval/retriever.ts';
import { type Printed, runInProcess } from '../../cli/in-process.ts';
import { CONTRACT_PASSAGES, type OpenedRetriever, retrieverContract } from '../../contracts/retriever.ts';
import { until } from '../../transport/loopback.ts';
import { isLanceInstalled } from './lance-installed.ts';
import { type ServedEmbeddings, serveEmbeddings, WORDS_MODEL } from './served-embeddings.ts';

const program = join(import.meta.dirname, '../../../src/cli/vf-index.ts');
const signal = new AbortController().signal;

const command = (folder: string, args: readonly string[]) => runInProcess('vf-index', args, { cwd: folder, env: {} });

const lines = (passages: readonly { id?: string; contents: string }[]) => passages.map((passage) => `${JSON.stringify(passage)}\n`).join('');
/** Passages of which each has five words that no other has. */
const words = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    id: `p${i}`,
    contents: `"Town ${i}"\nThe mayor of town${i} is ${['a', 'b', 'c', 'd'].map((part) => part + i).join(' ')}.`,
  }));

/** A manifest that someone changed, with the checksum that it then has. */
function resealed(json: string): string {
  const { crc32: _, ...content } = JSON.parse(json) as DenseManifest;
  return JSON.stringify(sealDenseManifest(content));
}

describe.runIf(isLanceInstalled())('vf-index --dense', () => {
  let folder: string;
  let server: ServedEmbeddings;
  let made: Printed;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'dense-index-'));
    server = await serveEmbeddings();
    writeFileSync(join(folder, 'corpus.jsonl'), lines(CONTRACT_PASSAGES.map(({ id, contents }) => ({ id: id!, contents }))));
    made = await command(folder, ['corpus.jsonl', '-o', 'made', '--dense', server.url, '-m', WORDS_MODEL, '--json']);
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it('embeds a corpus, sums the index up as JSON, and says that the prefixes are not known', () => {
    expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('the prefixes of bag-of-words are not known here') as string });
    const facts = { rows: 5, dim: 256, model: WORDS_MODEL, metric: 'cosine', search: { kind: 'exact' }, bm25: true };
    expect(JSON.parse(made.stdout)).toMatchObject(facts);
  });

  const open = (engine: 'dense' | 'hybrid', options = {}) => openRetriever({ engine, corpus: join(folder, 'made'), env: {}, ...options });
  const opened = async (engine: 'dense' | 'hybrid'): Promise<OpenedRetriever> => {
    const retriever: Retriever = await open(engine);
    return { retriever, [Symbol.asyncDispose]: () => retriever.close() };
  };

  describe('dense', () => {
    retrieverContract(() => opened('dense'), { isIndex: true, isDense: true });
  });
  describe('hybrid', () => {
    retrieverContract(() => opened('hybrid'), { isIndex: true, isDense: true });
  });

  it('goes on after kill -9 without embedding a passage twice that was written, and finds every passage at its place', async () => {
    const corpus = words(400);
    writeFileSync(join(folder, 'towns.jsonl'), lines(corpus));
    let answered = 0;
    await using slow = await serveEmbeddings({
      // Holds the answer to the tenth request back, after which a commit falls due.
      before: async () => {
        answered += 1;
        if (answered === 10) await new Promise(() => {});
        return false;
      },
    });
    const args = [
      'towns.jsonl',
      '-o',
      'towns',
      '--dense',
      slow.url,
      '-m',
      WORDS_MODEL,
      '--batch-size',
      '20',
      '--concurrency',
      '1',
      '--write-every',
      '40',
    ];
    const killed = spawn(process.execPath, ['--conditions=vf-search-source', program, ...args], { cwd: folder, stdio: 'ignore' });
    const ended = once(killed, 'close');
    const state = () => (existsSync(join(folder, 'towns/building.json')) ? readFileSync(join(folder, 'towns/building.json'), 'utf8') : '');
    await until(() => answered === 10 && state().includes('"rows": 160'));
    killed.kill('SIGKILL');
    expect(await ended).toEqual([null, 'SIGKILL']);
    const written = await rowsOf(join(folder, 'towns/vectors'));
    expect([120, 160]).toContain(written);

    const before = slow.asked.length;
    const resumed = await command(folder, args);
    expect(resumed).toMatchObject({ code: 0 });
    expect(resumed.stderr).toContain(`continuing after ${written} passages`);
    // The first passage once more, to make sure that the model is the same, and the passages that were not written.
    expect(slow.asked.slice(before).flatMap(({ input }) => input)).toEqual([corpus[0]!, ...corpus.slice(written)].map(({ contents }) => contents));
    const retriever = await openRetriever({ engine: 'dense', corpus: join(folder, 'towns'), env: {} });
    const found = await retriever.search(
      corpus.map(({ contents }) => contents),
      { topk: 1, signal },
    );
    expect(found.map(([best]) => best!.id)).toEqual(corpus.map(({ id }) => id));
    expect(existsSync(join(folder, 'towns/building.json'))).toBe(false);
    await retriever.close();
  });

  it('refuses to go on with another model, other prefixes, or another corpus, in one line (exit 2)', async () => {
    writeFileSync(join(folder, 'half.jsonl'), lines(words(60)));
    await using other = await serveEmbeddings({ salt: 1 });
    await using failing = await serveEmbeddings({
      before: ({ input }, response) => input[0]!.includes('Town 40') && (response.writeHead(400).end('{"error": "no more"}'), true),
    });
    const args = (url: string, ...more: string[]) => [
      'half.jsonl',
      '-o',
      'half',
      '--no-bm25',
      '--dense',
      url,
      '-m',
      WORDS_MODEL,
      '--batch-size',
      '20',
      ...more,
    ];
    const first = await command(folder, args(failing.url, '--concurrency', '1', '--write-every', '20'));
    expect([first.code, first.stderr]).toEqual([1, expect.stringMatching(/no more/)]);
    expect(await rowsOf(join(folder, 'half/vectors'))).toBe(40);

    const line = async (given: readonly string[]) => {
      const { code, stderr } = await command(folder, given);
      expect(code).toBe(2);
      return stderr.split('\n').filter((text) => text !== '' && !text.includes('are not known here'));
    };
    expect(await line(args(server.url, '--passage-prefix', 'passage: '))).toEqual([
      expect.stringMatching(/holds an unfinished index with passage_prefix "", not "passage: "\. Continue with that, or start over with --force\.$/),
    ]);
    expect(await line(args(other.url))).toEqual([
      expect.stringMatching(/is not the model of .*half: its vector of the first passage has a cosine of 0\.\d+ with/),
    ]);
    writeFileSync(join(folder, 'half.jsonl'), lines(words(60).toReversed()));
    expect(await line(args(server.url))).toEqual([expect.stringMatching(/does not begin with the 40 passages that are embedded already/)]);
    const forced = await command(folder, args(server.url, '--force'));
    expect(forced).toMatchObject({ code: 0 });
  });

  it('keeps an index that --force replaces until the new one is whole, and goes on with an interrupted replacement', async () => {
    writeFileSync(join(folder, 'kept.jsonl'), lines(words(60)));
    await using failing = await serveEmbeddings({
      before: ({ input }, response) => input[0]!.includes('Town 40') && (response.writeHead(400).end('{"error": "no more"}'), true),
    });
    const args = (url: string, ...more: string[]) => ['kept.jsonl', '-o', 'kept', '--no-bm25', '--dense', url, '-m', WORDS_MODEL, ...more];
    const slowly = ['--batch-size', '20', '--concurrency', '1', '--write-every', '20'];
    const rows = () => rowsOf(join(folder, 'kept/vectors'));
    writeFileSync(join(folder, 'kept.jsonl'), lines(words(10)));
    expect(await command(folder, args(server.url))).toMatchObject({ code: 0 });
    writeFileSync(join(folder, 'kept.jsonl'), lines(words(60)));
    expect(await command(folder, args(server.url))).toMatchObject({ code: 2, stderr: expect.stringContaining('already exists') });
    expect(await command(folder, args(failing.url, ...slowly, '--force'))).toMatchObject({ code: 1 });
    expect(await rows()).toBe(10);
    const resumed = await command(folder, args(server.url, ...slowly));
    expect(resumed).toMatchObject({ code: 0, stderr: expect.stringContaining('continuing after 40 passages') });
    expect(await rows()).toBe(60);
    expect(readdirSync(folder).filter((name) => name.includes('kept'))).toEqual(['kept', 'kept.jsonl']);

    // As a kill between the two renames leaves it.
    const left = join(folder, '.kept.999999999.tmp-abcdef');
    mkdirSync(left);
    cpSync(join(folder, 'kept'), join(left, 'index'), { recursive: true });
    renameSync(join(folder, 'kept'), join(left, 'old'));
    const retriever = await openRetriever({ engine: 'dense', corpus: join(folder, 'kept'), env: {} });
    await retriever.close();
    expect(await rows()).toBe(60);
  });

  it('says in one line what cannot be done (exit 2)', async () => {
    const refused = async (...args: string[]) => {
      const { code, stderr } = await command(folder, args);
      return [code, stderr.trim()];
    };
    const dense = ['--dense', server.url];
    expect(await refused('corpus.jsonl', '-o', 'x', ...dense)).toEqual([2, expect.stringMatching(/^vf-index: --dense needs the name of the model/)]);
    expect(await refused('corpus.jsonl', '-o', 'x', '-m', 'e5')).toEqual([2, 'vf-index: -m is for an index of vectors; add --dense <url>']);
    expect(await refused('corpus.jsonl', '-o', 'x', '--k1', '1', ...dense, '-m', 'e5')).toEqual([
      2,
      expect.stringMatching(/^vf-index: --k1 is for BM25 alone/),
    ]);
    expect(await refused('corpus.jsonl', '-o', 'made', ...dense, '-m', WORDS_MODEL)).toEqual([2, expect.stringMatching(/made already exists\./)]);
    expect(await refused('corpus.jsonl', '-o', 'pq', '--ivf-pq', ...dense, '-m', WORDS_MODEL)).toEqual([
      2,
      expect.stringMatching(/IVF-PQ needs at least 256 passages, and the corpus has 5/),
    ]);
  });

  it('finds with IVF-PQ what the exact search finds', async () => {
    const corpus = words(600);
    writeFileSync(join(folder, 'many.jsonl'), lines(corpus));
    const many = await command(folder, ['many.jsonl', '-o', 'many', '--no-bm25', '--ivf-pq', '--dense', server.url, '-m', WORDS_MODEL]);
    expect(many).toMatchObject({ code: 0 });
    const table = await DenseTable.open(join(folder, 'many/vectors'));
    const { search } = JSON.parse(readFileSync(join(folder, 'many/manifest.json'), 'utf8')) as {
      search: { kind: 'ivf_pq'; partitions: number; sub_vectors: number; nprobes: number; refine: number };
    };
    expect(search).toMatchObject({ kind: 'ivf_pq', partitions: 24, sub_vectors: 32 });
    const vectors = await Promise.all([3, 77, 599].map(async (row) => (await table.passage(row))!.vector));
    const ids = async (kind: typeof search | { kind: 'exact' }) => (await table.search(vectors, 1, kind)).map(([best]) => best!.id);
    expect(await ids(search)).toEqual(await ids({ kind: 'exact' }));
    table.close();
  });

  it('opens only with the model that made the index', async () => {
    await using other = await serveEmbeddings({ salt: 1 });
    await using shorter = await serveEmbeddings({ dim: 128 });
    await using stranger = await serveEmbeddings({ model: 'e5' });
    await expect(open('dense', { embeddingsModel: 'e5' })).rejects.toThrow(
      new ConfigError(`${join(folder, 'made')} holds vectors of the model bag-of-words, not of e5. Name that model, or build another index.`),
    );
    await expect(open('dense', { embeddingsUrl: other.url })).rejects.toThrow(/is not the model of .*made/);
    await expect(open('hybrid', { embeddingsUrl: shorter.url })).rejects.toThrow(/makes vectors of 128 numbers, and .*made holds vectors of 256/);
    await expect(open('dense', { embeddingsUrl: stranger.url })).rejects.toThrow(
      /The queries cannot be embedded: .* does not serve the model "bag-of-words", but e5/,
    );
  });

  it('sends the key only to a server that the user named, never to the one in a manifest', async () => {
    const keys: unknown[] = [];
    await using listening = await serveEmbeddings({ before: (_, __, request) => (keys.push(request.headers.authorization), false) });
    const env = { EMBEDDINGS_API_KEY: 'sk-secret', EMBEDDINGS_URL: listening.url };
    await (await open('dense', { env })).close();
    const manifest = join(folder, 'made/manifest.json');
    const original = readFileSync(manifest, 'utf8');
    writeFileSync(manifest, resealed(original.replace(server.url, listening.url)));
    try {
      await (await open('dense', { env: { EMBEDDINGS_API_KEY: 'sk-secret' } })).close();
    } finally {
      writeFileSync(manifest, original);
    }
    expect(keys).toEqual(['Bearer sk-secret', undefined]);
  });

  it('needs an index of vectors, and for hybrid one with BM25', async () => {
    await expect(open('dense', { corpus: 'nq-mini' })).rejects.toThrow(/The engine dense has no index "nq-mini"\. Make one: vf-index/);
    await expect(open('hybrid', { corpus: join(folder, 'many') })).rejects.toThrow(/has no BM25 index for the engine hybrid/);
    await expect(open('dense', { corpus: join(folder, 'made/bm25') })).rejects.toThrow(/it is a BM25 index, without vectors/);
    await expect(openRetriever({ corpus: 'nq-mini', embeddingsModel: 'e5' })).rejects.toThrow(/bm25 does not use an embeddings model/);
  });

  it('is served by vf-serve retrieve --dense over /retrieve', async () => {
    const serve = join(import.meta.dirname, '../../../src/cli/vf-serve.ts');
    const child = spawn(process.execPath, ['--conditions=vf-search-source', serve, 'retrieve', '--dense', '--corpus', 'made', '--port', '0'], {
      cwd: folder,
    });
    try {
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      const response = await fetch(String(line).trim(), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ queries: ['river Zumardle'], topk: 1, return_scores: true }),
      });
      expect(await response.json()).toMatchObject({
        result: [[{ document: { id: '1', contents: CONTRACT_PASSAGES[1]!.contents }, score: expect.any(Number) as number }]],
      });
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('reports vectors that do not belong to the manifest', async () => {
    const manifest = join(folder, 'made/manifest.json');
    const original = readFileSync(manifest, 'utf8');
    writeFileSync(manifest, resealed(original.replace('"rows": 5', '"rows": 6')));
    try {
      await expect(open('dense')).rejects.toThrow(RetrievalError);
    } finally {
      writeFileSync(manifest, original);
    }
  });
});

async function rowsOf(vectors: string): Promise<number> {
  const table = await DenseTable.open(vectors);
  try {
    return await table.rows();
  } finally {
    table.close();
  }
}
