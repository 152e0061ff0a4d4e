import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runInProcess } from '../../cli/in-process.ts';
import { openBm25 } from '../../../src/retrieval/bm25/open-bm25.ts';

const program = new URL('../../../src/cli/vf-index.ts', import.meta.url).pathname;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-index-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(args: readonly string[]): ChildProcess {
  return spawn(process.execPath, ['--conditions=vf-search-source', program, ...args], { cwd: folder });
}

async function finish(child: ChildProcess): Promise<Finished> {
  let stdout = '';
  let stderr = '';
  child.stdout!.on('data', (text) => (stdout += text));
  child.stderr!.on('data', (text) => (stderr += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}

describe('vf-index', () => {
  it('builds an index that opens, and sums it up as JSON on stdout alone', async () => {
    writeFileSync(join(folder, 'corpus.jsonl'), '{"id":"a","contents":"cats purr"}\n{"id":"b","title":"Dogs","text":"bark"}\n');
    const { code, stdout, stderr } = await finish(start(['corpus.jsonl', '-o', 'index', '--json', '--k1', '1.2']));
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toMatchObject({ index: 'index', corpus: 'corpus.jsonl', rows: 2, terms: 4, shards: 1, k1: 1.2, b: 0.4 });
    const retriever = await openBm25(join(folder, 'index'));
    const [list] = await retriever.search(['dog'], { topk: 1, signal: new AbortController().signal });
    expect(list).toMatchObject([{ id: 'b', contents: '"Dogs"\nbark' }]);
    await retriever.close();
  });

  it('indexes a packed corpus as the same unpacked one', async () => {
    const corpus = '{"id":"a","contents":"cats purr"}\n{"id":"b","title":"Dogs","text":"bark"}\n';
    writeFileSync(join(folder, 'corpus.jsonl'), corpus);
    writeFileSync(join(folder, 'corpus.jsonl.gz'), gzipSync(corpus));
    const summaries = await Promise.all(
      ['corpus.jsonl', 'corpus.jsonl.gz'].map(async (name) => {
        const { code, stdout } = await finish(start([name, '-o', `${name}.index`, '--json']));
        const { rows, terms, sha256 } = JSON.parse(stdout) as Record<string, unknown>;
        return [code, rows, terms, sha256];
      }),
    );
    expect(summaries[1]).toEqual([0, 2, 4, summaries[0]![3]]);
    const passages = ['corpus.jsonl', 'corpus.jsonl.gz'].map((name) => readFileSync(join(folder, `${name}.index`, 'passages.jsonl'), 'utf8'));
    expect(passages).toEqual([corpus, corpus]);
  });

  it('reads columns of other names from a table', async () => {
    writeFileSync(join(folder, 'corpus.csv'), 'nr,name,body\n7,Dogs,"bark, loudly"\n8,,purr\n,Cats,hiss\n');
    const args = ['corpus.csv', '-o', 'index', '--text', 'body', '--title', 'name', '--id', 'nr'];
    expect(await runInProcess('vf-index', args, { cwd: folder, env: {} })).toMatchObject({ code: 0, stdout: '' });
    const retriever = await openBm25(join(folder, 'index'));
    const [list] = await retriever.search(['dog'], { topk: 1, signal: new AbortController().signal });
    expect(list).toMatchObject([{ id: '7', contents: '"Dogs"\nbark, loudly' }]);
    // A table has blanks where a passage has no title or id.
    const lists = await retriever.search(['purr', 'hiss'], { topk: 1, signal: new AbortController().signal });
    expect(lists).toMatchObject([[{ id: '8', contents: 'purr' }], [{ id: '2', contents: '"Cats"\nhiss' }]]);
    await retriever.close();
  });

  it('says which ids are there twice, row numbers included, and gives BEIR’s blank titles no line', async () => {
    const rows = [
      { _id: 'a', title: '', text: 'cats' },
      { _id: 'a', text: 'dogs' },
      { _id: '', text: 'cows' },
      { _id: '2', text: 'hens' },
      { _id: '4', text: 'owls' },
    ];
    writeFileSync(join(folder, 'corpus.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const { code, stderr } = await runInProcess('vf-index', ['corpus.jsonl', '-o', 'index'], { cwd: folder, env: {} });
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(/^vf-index: 2 passages have the id of an earlier one, such as "a"\. They are searched/),
    ]);
    const retriever = await openBm25(join(folder, 'index'));
    const found = await retriever.search(['cat', 'dog', 'cow', 'hen'], { topk: 1, signal: new AbortController().signal });
    expect(found.map(([hit]) => [hit!.id, hit!.contents])).toEqual([
      ['a', 'cats'],
      ['a', 'dogs'],
      ['2', 'cows'],
      ['2', 'hens'],
    ]);
    await retriever.close();
  });

  it('reads stdin, and removes what it wrote when it is interrupted (exit 130)', async () => {
    const child = start(['-', '-o', 'index']);
    const finished = finish(child);
    child.stdin!.write('{"id":"a","contents":"cats purr"}\n');
    const deadline = Date.now() + 20_000;
    while (readdirSync(folder).length === 0 && Date.now() < deadline) await new Promise((done) => setTimeout(done, 20));
    expect(readdirSync(folder).length).toBe(1);
    child.kill('SIGINT');
    expect((await finished).code).toBe(130);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('says in one line what cannot be done (exit 2)', async () => {
    writeFileSync(join(folder, 'bad.jsonl'), '{"id":"a","contents":"cats"}\n{"id":"b"}\n');
    const cases: [string[], string][] = [
      [['bad.jsonl', '-o', 'index'], 'bad.jsonl, line 2 has no "contents"'],
      [['bad.jsonl', '-o', 'index', '--text', 'body'], 'Line 1 of bad.jsonl has no column "body"; it has "id", "contents"; every'],
      [['missing.jsonl', '-o', 'index'], 'The file missing.jsonl does not exist; name a corpus, or - for stdin'],
      [['bad.jsonl', '-o', folder], '--force'],
    ];
    const results = await Promise.all(cases.map(([args]) => finish(start(args))));
    for (const [i, { code, stdout, stderr }] of results.entries()) {
      expect([code, stdout, stderr.trim().split('\n').length]).toEqual([2, '', 1]);
      expect(stderr).toContain(cases[i]![1]);
    }
    expect(readdirSync(folder)).toEqual(['bad.jsonl']);
  });
});
