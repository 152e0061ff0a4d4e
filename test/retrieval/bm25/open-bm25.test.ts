import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, crc32, gzipSync, zstdCompressSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, RetrievalError } from '../../../src/core/errors.ts';
import { Bm25Index } from '../../../src/retrieval/bm25/bm25-index.ts';
import { buildIndexFolder } from '../../../src/retrieval/bm25/build-index-folder.ts';
import { IndexWriter, readIndexFolder } from '../../../src/retrieval/bm25/index-folder.ts';
import { openBm25, type OpenBm25Options } from '../../../src/retrieval/bm25/open-bm25.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../../contracts/retriever.ts';
import { nqMiniCorpus } from '../../nq-mini-corpus.ts';

const signal = new AbortController().signal;
const nqMini = new URL('../../../datasets/nq-mini/corpus.jsonl.br', import.meta.url).pathname;
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-bm25-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

let made = 0;
const fresh = (name: string): string => join(folder, `${++made}-${name}`);

function corpusFile(lines: readonly (string | object)[], end = '\n'): string {
  const path = fresh('corpus.jsonl');
  writeFileSync(path, lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n') + end);
  return path;
}

async function contentsOf(path: string, query: string, options: OpenBm25Options = {}): Promise<readonly unknown[]> {
  const retriever = await openBm25(path, options);
  const [list] = await retriever.search([query], { topk: 5, signal });
  await retriever.close();
  return list!.map(({ id, contents }) => [id, contents]);
}

describe('openBm25 of passages', () => {
  retrieverContract(async () => opened(await openBm25(CONTRACT_PASSAGES)), { isIndex: true });
});

describe('openBm25 of a packed corpus', () => {
  retrieverContract(
    async () => {
      const path = fresh('corpus.jsonl.br');
      writeFileSync(path, brotliCompressSync(readFileSync(corpusFile(CONTRACT_PASSAGES))));
      return opened(await openBm25(path));
    },
    { isIndex: true },
  );
});

describe('openBm25 of a corpus file', () => {
  retrieverContract(async () => opened(await openBm25(corpusFile(CONTRACT_PASSAGES))), { isIndex: true });

  it('reads contents, titles with texts, numbers as ids and lines without ids', async () => {
    const path = corpusFile([{ id: 7, contents: 'a cat' }, { id: 'x', title: 'Cats\nof old', text: 'purr' }, { contents: 'cat three' }]);
    expect(await contentsOf(path, 'cat')).toEqual(
      expect.arrayContaining([
        ['7', 'a cat'],
        ['x', '"Cats of old"\npurr'],
        ['2', 'cat three'],
      ]),
    );
  });

  it('accepts a byte order mark, CRLF, blank lines at the end and no line feed at the end', async () => {
    const path = corpusFile(['\ufeff{"id":"a","contents":"cat Zürich"}\r', '{"id":"b","contents":"dog 苏黎世"}\r', '\r', ''], '');
    expect(await contentsOf(path, 'cat')).toEqual([['a', 'cat Zürich']]);
    expect(await contentsOf(path, '苏')).toEqual([['b', 'dog 苏黎世']]);
    expect(await contentsOf(corpusFile(['{"id":"a","contents":"cat"}', '{"id":"b","contents":"dog"}'], ''), 'dog')).toEqual([['b', 'dog']]);
  });

  it.each([
    [
      'beir.jsonl',
      '{"_id":"MED-10","title":"Cat","text":"a cat","metadata":{}}\n{"_id":"MED-14","title":"Dog","text":"a dog"}\n',
      [['MED-10', '"Cat"\na cat']],
    ],
    ['docid.jsonl', '{"docid":"d1","text":"a cat"}\n', [['d1', 'a cat']]],
    ['utf16.jsonl', Buffer.from('\ufeff{"id":"a","contents":"cat Zürich"}\n', 'utf16le'), [['a', 'cat Zürich']]],
    ['list.json', '[{"id":"a","contents":"cat"},{"id":"b","contents":"dog"}]', [['a', 'cat']]],
    ['psgs.tsv', 'id\ttext\ttitle\n1\t"a ""big"" cat"\tCats\n2\tdog\tDogs\n', [['1', '"Cats"\na "big" cat']]],
    ['packed.csv.gz', gzipSync('id,text\n7,cat\n'), [['7', 'cat']]],
    [
      'rows.parquet',
      Buffer.from(
        parquetWriteBuffer({
          columnData: [
            { name: 'id', data: [2n ** 53n + 1n, 2n ** 53n], type: 'INT64' },
            { name: 'contents', data: ['cat', 'dog'], type: 'STRING' },
          ],
        }),
      ),
      [['9007199254740993', 'cat']],
    ],
    [
      'large.jsonl',
      '{"id":9007199254740993,"contents":"cat one"}\n{"id":9007199254740992,"contents":"cat two"}\n',
      [
        ['9007199254740993', 'cat one'],
        ['9007199254740992', 'cat two'],
      ],
    ],
  ] as const)('reads the passages and the ids of %s, from memory and from an index', async (name, bytes, found) => {
    const path = fresh(name);
    writeFileSync(path, bytes);
    for (const options of [{}, { cacheDir: fresh('cache') }]) expect(await contentsOf(path, 'cat', options)).toEqual(found);
  });

  it('reads columns of other names, and refuses them for an index', async () => {
    const path = corpusFile(['{"nr":7,"name":"Cats","body":"purr","id":"x","contents":"no"}']);
    expect(await contentsOf(path, 'cat', { columns: { text: 'body', title: 'name', id: 'nr' } })).toEqual([['7', '"Cats"\npurr']]);
    await expect(openBm25(path, { columns: { text: 'abstract' } })).rejects.toThrow(
      /^Line 1 of \S+ has no column "abstract"; it has "nr", "name", "body", "id", "contents"; every line/,
    );
    const target = fresh('index');
    await buildIndexFolder({ corpus: path, target });
    await expect(openBm25(target, { columns: { text: 'body' } })).rejects.toThrow(/is an index, whose passages have no columns\./);
  });

  it.each([
    ['{"id": 1, "contents": "a"', 'line 2 is not JSON'],
    ['[1]', 'line 2 is a list, not an object'],
    ['null', 'line 2 is null, not an object'],
    ['{"id": 1}', 'line 2 has no "contents"'],
    ['{"id": 1, "contents": 5}', 'line 2 has a number as "contents"'],
    ['{"id": {}, "contents": "a"}', 'line 2 has the id an object'],
    ['', 'line 2 is blank'],
  ])('says which line is wrong and how: %s', async (line, problem) => {
    const path = corpusFile(['{"id":0,"contents":"a"}', line, '{"id":2,"contents":"b"}']);
    await expect(openBm25(path)).rejects.toThrow(ConfigError);
    await expect(openBm25(path)).rejects.toThrow(problem);
  });

  it('refuses what is not UTF-8, gzip, empty or not there', async () => {
    const path = fresh('bytes.jsonl');
    const cases: [Buffer, RegExp][] = [
      [Buffer.from('{"contents":"caf\xe9"}', 'latin1'), /line 1 is not UTF-8/],
      [Buffer.from([0x1f, 0x8b, 8, 0]), /gunzip/],
      [Buffer.from('\n\n'), /contains no passages/],
    ];
    for (const [bytes, problem] of cases) {
      writeFileSync(path, bytes);
      await expect(openBm25(path)).rejects.toThrow(problem);
    }
    await expect(openBm25(fresh('nothing'))).rejects.toThrow(ConfigError);
  });

  it.each(Object.entries({ gz: gzipSync, br: brotliCompressSync, zst: zstdCompressSync }))(
    'refuses a damaged file .%s in one line',
    async (end, pack) => {
      const path = fresh(`corpus.jsonl.${end}`);
      writeFileSync(path, pack(readFileSync(corpusFile(CONTRACT_PASSAGES))).subarray(0, -5));
      for (const options of [{}, { cacheDir: fresh('cache') }]) {
        await expect(openBm25(path, options)).rejects.toThrow(/^Could not unpack .*: unexpected end of file\. The file is damaged: restore it\.$/);
        await expect(openBm25(path, options)).rejects.toThrow(ConfigError);
      }
    },
  );

  it('refuses options it does not know and parameters that mean nothing', async () => {
    await expect(openBm25(CONTRACT_PASSAGES, { topk: 3 } as object)).rejects.toThrow('no option topk');
    await expect(openBm25(CONTRACT_PASSAGES, { b: 2 })).rejects.toThrow(ConfigError);
  });

  it('reports a corpus that changed under it as a failed retrieval, and a closed retriever too', async () => {
    const path = corpusFile([{ id: 'a', contents: 'cat' }]);
    const retriever = await openBm25(path);
    writeFileSync(path, '#'.repeat(readFileSync(path).length));
    await expect(retriever.search(['cat'], { topk: 1, signal })).rejects.toThrow(RetrievalError);
    await retriever.close();
    await expect(retriever.search(['cat'], { topk: 1, signal })).rejects.toThrow(RetrievalError);
  });

  it('reads the passages of a packed corpus, those without ids too, and keeps them when the file is gone', async () => {
    const path = fresh('corpus.jsonl.gz');
    writeFileSync(path, gzipSync('{"contents":"a cat"}\n{"contents":"cat two"}\n{"id":"x","contents":"a dog"}\n'));
    const retriever = await openBm25(path);
    rmSync(path);
    const [cats, dogs] = await retriever.search(['cat two', 'dog'], { topk: 1, signal });
    expect([cats, dogs]).toMatchObject([[{ id: '1', contents: 'cat two' }], [{ id: 'x', contents: 'a dog' }]]);
    await retriever.close();
    await expect(retriever.search(['cat'], { topk: 1, signal })).rejects.toThrow(RetrievalError);
  });

  it('lets other work run between the queries of a large batch', async () => {
    const retriever = await openBm25(nqMini);
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await retriever.search(
      Array.from({ length: 500 }, (_, i) => `who won the war of the year ${i} in the united states`),
      { topk: 3, signal },
    );
    clearInterval(timer);
    expect(turns).toBeGreaterThan(0);
    await retriever.close();
  });

  it('keeps its index in cacheDir, builds it once per content, and again when it is damaged', async () => {
    const path = corpusFile(CONTRACT_PASSAGES);
    const cacheDir = fresh('cache');
    const builds: number[] = [];
    const search = async (corpus: string): Promise<unknown> => {
      const retriever = await openBm25(corpus, { cacheDir, onProgress: ({ rows }) => builds.push(rows) });
      const lists = await retriever.search(['mayor of Gelvet'], { topk: 3, signal });
      await retriever.close();
      return lists;
    };
    const direct = await (await openBm25(path)).search(['mayor of Gelvet'], { topk: 3, signal });
    expect(await search(path)).toEqual(direct);
    expect(await search(corpusFile(CONTRACT_PASSAGES))).toEqual(direct);
    expect([builds, readdirSync(cacheDir).length]).toEqual([[5], 1]);
    truncateSync(join(cacheDir, readdirSync(cacheDir)[0]!, 'shard-0.bin'), 10);
    expect(await search(path)).toEqual(direct);
    expect([builds, readdirSync(cacheDir).length]).toEqual([[5, 5], 1]);
    appendFileSync(path, '{"id":"5","contents":"mayor"}\n');
    await search(path);
    expect([builds, readdirSync(cacheDir).length]).toEqual([[5, 5, 6], 2]);
  });

  it('shares one cached index between openings at the same time', async () => {
    const path = corpusFile(CONTRACT_PASSAGES);
    const cacheDir = fresh('cache');
    const retrievers = await Promise.all(Array.from({ length: 4 }, () => openBm25(path, { cacheDir })));
    const lists = await Promise.all(retrievers.map((retriever) => retriever.search(['river'], { topk: 1, signal })));
    expect(lists.map(([list]) => list![0]!.id)).toEqual(['1', '1', '1', '1']);
    expect(readdirSync(cacheDir).length).toBe(1);
    await Promise.all(retrievers.map((retriever) => retriever.close()));
  });
});

describe('openBm25 of an index folder', () => {
  let whole: string;
  let copy: string;
  beforeAll(async () => {
    whole = fresh('whole.index');
    await buildIndexFolder({ corpus: corpusFile(CONTRACT_PASSAGES), target: whole, k1: 1.2, b: 0.75 });
  });
  beforeEach(() => {
    copy = fresh('copy.index');
    cpSync(whole, copy, { recursive: true });
  });

  retrieverContract(async () => opened(await openBm25(whole)), { isIndex: true });

  it('answers like the index it was written from, to the last bit, with its own k1 and b unless others are given', async () => {
    const query = 'mayor of Gelvet';
    const scores = async (source: string, options: object): Promise<unknown> => {
      const [list] = await (await openBm25(source, options)).search([query], { topk: 5, signal });
      return list!.map(({ score }) => score);
    };
    const index = Bm25Index.build(CONTRACT_PASSAGES.map(({ contents }) => contents));
    expect(await scores(whole, {})).toEqual(index.search(query, 5, { k1: 1.2, b: 0.75 }).map(({ score }) => score));
    expect(await scores(whole, { k1: 0.9, b: 0.4 })).toEqual(index.search(query, 5).map(({ score }) => score));
  });

  it('reads back every array and term of nq-mini, in shards too', async () => {
    const lines = nqMiniCorpus().trim().split('\n').slice(0, 2000);
    const contents = lines.map((line) => (JSON.parse(line) as { contents: string }).contents);
    const index = Bm25Index.build(contents, { shardRows: 700 });
    const target = fresh('shards.index');
    const writer = new IndexWriter(target, { overwrite: false });
    const bytes = Buffer.from(lines.join('\n'));
    writer.appendCorpus(bytes);
    let at = 0;
    const lineStarts = Float64Array.from([...lines.map((line) => (at += Buffer.byteLength(line) + 1) - Buffer.byteLength(line) - 1), bytes.length]);
    const lineChecksums = Uint32Array.from(lines, (line) => crc32(line));
    writer.finish(index, { rows: 2000, bytes: bytes.length, sha256: 'x', lineStarts, lineChecksums }, { name: 'x', k1: 0.9, b: 0.4 });
    const read = readIndexFolder(target);
    expect(read.index.corpus.vocabulary.terms).toEqual(index.corpus.vocabulary.terms);
    expect(read.index.corpus.shards.map((shard) => shard.arrays)).toEqual(index.corpus.shards.map((shard) => shard.arrays));
    expect([0, 699, 1999].map((row) => read.passages.read(row).contents)).toEqual([0, 699, 1999].map((row) => contents[row]));
    expect(read.index.search('history of the river', 10)).toEqual(index.search('history of the river', 10));
    read.passages.close();
  });

  it('refuses a torn, damaged or foreign folder in one clear error that names the way out', async () => {
    const damage: Record<string, (path: string) => void> = {
      'shard-0.bin has': (path) => truncateSync(join(path, 'shard-0.bin'), 20),
      'shard-0.bin is damaged': (path) => flipByte(join(path, 'shard-0.bin')),
      'terms.txt is damaged': (path) => flipByte(join(path, 'terms.txt')),
      'lacks passages.starts': (path) => rmSync(join(path, 'passages.starts')),
      'lacks manifest.json': (path) => rmSync(join(path, 'manifest.json')),
      'is not JSON': (path) => truncateSync(join(path, 'manifest.json'), 30),
      'was not written by vf-index': (path) => writeFileSync(join(path, 'manifest.json'), '{"format": "other"}'),
      'missing or wrong fields': (path) => editManifest(path, { shards: 3 }),
      'format version 99': (path) => editManifest(path, { version: 99 }),
      'the analyzer old-1': (path) => editManifest(path, { analyzer: 'old-1' }),
      'passages.jsonl must have': (path) => appendFileSync(join(path, 'passages.jsonl'), 'x'),
    };
    for (const [problem, harm] of Object.entries(damage)) {
      rmSync(copy, { recursive: true });
      cpSync(whole, copy, { recursive: true });
      harm(copy);
      await expect(openBm25(copy)).rejects.toThrow(ConfigError);
      await expect(openBm25(copy)).rejects.toThrow(problem);
      await expect(openBm25(copy)).rejects.toThrow('again');
    }
  });

  it('says of a folder that was never an index what to name instead', async () => {
    await expect(openBm25(mkdtempSync(join(folder, 'documents-')))).rejects.toThrow(
      /is a folder, but no index: .* Name a corpus file, or make an index/,
    );
  });
});

describe('buildIndexFolder', () => {
  it('leaves nothing behind and keeps what was there when it fails or is stopped', async () => {
    const parent = mkdtempSync(join(folder, 'atomic-'));
    const target = join(parent, 'index');
    await buildIndexFolder({ corpus: corpusFile(CONTRACT_PASSAGES), target });
    const before = readFileSync(join(target, 'manifest.json'), 'utf8');
    await expect(buildIndexFolder({ corpus: corpusFile(['{"contents":"a"}', '?', '']), target, overwrite: true })).rejects.toThrow('line 2');
    await expect(buildIndexFolder({ corpus: nqMini, target, overwrite: true, signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
    expect(readdirSync(parent)).toEqual(['index']);
    expect(readFileSync(join(target, 'manifest.json'), 'utf8')).toBe(before);
  });

  it('keeps an index usable although a process was killed while it put the new one in its place', async () => {
    const parent = mkdtempSync(join(folder, 'killed-'));
    const target = join(parent, 'index');
    const left = join(parent, '.index.999999999.tmp-abcdef');
    const begun = async () => {
      mkdirSync(left);
      await buildIndexFolder({ corpus: corpusFile([{ contents: 'older' }]), target: join(left, 'old') });
      await buildIndexFolder({ corpus: corpusFile([{ contents: 'newer' }]), target: join(left, 'index') });
    };
    await begun();
    expect(await contentsOf(target, 'newer')).toEqual([['0', 'newer']]);
    rmSync(parent, { recursive: true });
    mkdirSync(parent);
    await begun();
    await expect(buildIndexFolder({ corpus: nqMini, target, overwrite: true, signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
    expect(readdirSync(parent)).toEqual(['index']);
    expect(await contentsOf(target, 'newer')).toEqual([['0', 'newer']]);
  });

  it('replaces an index only when asked to, and never anything else', async () => {
    const target = fresh('index');
    const corpus = corpusFile(CONTRACT_PASSAGES);
    await buildIndexFolder({ corpus, target });
    await expect(buildIndexFolder({ corpus, target })).rejects.toThrow('--force');
    await buildIndexFolder({ corpus: corpusFile([{ contents: 'newer' }]), target, overwrite: true });
    expect(await contentsOf(target, 'newer')).toEqual([['0', 'newer']]);
    const precious = mkdtempSync(join(folder, 'precious-'));
    writeFileSync(join(precious, 'thesis.tex'), '');
    await expect(buildIndexFolder({ corpus, target: precious, overwrite: true })).rejects.toThrow('is not an index of vf-index');
    await expect(buildIndexFolder({ corpus, target: join(precious, 'thesis.tex'), overwrite: true })).rejects.toThrow(ConfigError);
    await expect(buildIndexFolder({ corpus, target: join(precious, 'no', 'index') })).rejects.toThrow('does not exist');
    expect(readdirSync(precious)).toEqual(['thesis.tex']);
  });
});

function opened(retriever: Awaited<ReturnType<typeof openBm25>>): { retriever: typeof retriever } & AsyncDisposable {
  return { retriever, [Symbol.asyncDispose]: () => retriever.close() };
}

function flipByte(path: string): void {
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(path, bytes);
}

function editManifest(path: string, change: object): void {
  const file = join(path, 'manifest.json');
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, 'utf8')) as object), ...change }));
}
