/**
 * Searches an index of nq-mini with vectors, by words, by vectors and by both; then compares LanceDB with FAISS and numpy on the same vectors, one after the other:
 *
 *     npm run bench -- dense INDEX     INDEX: made of datasets/nq-mini/corpus.jsonl.br by vf-index --dense; its server embeds the questions
 *
 * Prints recall@3 of the three engines over the 500 test questions, whether the exact search gives the ten best of numpy's brute force, recall@10 of IVF-PQ, and time and
 * memory compared with FAISS (IndexFlatIP, IndexIVFPQ with the same partitions, bytes, probes and refinement). Each library runs in a process of its own.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { normalizeAnswer } from '../../src/metrics/normalize-answer.ts';
import { openEmbedder } from '../../src/registry/open-embedder.ts';
import { openRetriever } from '../../src/registry/open-retriever.ts';
import { DenseFolder } from '../../src/retrieval/dense/dense-folder.ts';
import { DenseTable } from '../../src/retrieval/dense/dense-table.ts';
import { searchOf } from '../../src/retrieval/dense/search-settings.ts';
import type { DenseRun } from './dense-run.ts';
import { peerVenv } from './peer-venv.ts';

const [index] = process.argv.slice(2);
if (index === undefined) throw new Error('usage: npm run bench -- dense INDEX');
const signal = new AbortController().signal;
const here = (path: string): string => join(import.meta.dirname, path);
const lines = (path: string) =>
  readFileSync(here(`../../datasets/nq-mini/${path}`), 'utf8')
    .trim()
    .split('\n');
const questions = lines('test.jsonl').map((line) => JSON.parse(line) as { id: string; question: string; golden_answers: readonly string[] });
const marked = new Map<string, Set<string>>();
for (const line of lines('qrels.test.tsv')) {
  const [question = '', passage = ''] = line.split('\t');
  marked.set(question, (marked.get(question) ?? new Set()).add(passage));
}
const write = (text: string) => void process.stdout.write(`${text}\n`);

await printRecall();
await printPeers();

async function printRecall(): Promise<void> {
  const asked = questions.map(({ question }) => question);
  write('engine   marked@3  answer@3');
  for (const engine of ['bm25', 'dense', 'hybrid'] as const) {
    const retriever = await openRetriever(engine === 'bm25' ? { corpus: 'nq-mini' } : { engine, corpus: index! });
    const found = await retriever.search(asked, { topk: 3, signal });
    await retriever.close();
    const share = (claim: (q: number) => boolean) => (questions.filter((_, q) => claim(q)).length / questions.length).toFixed(3);
    const passage = share((q) => found[q]!.some(({ id }) => marked.get(questions[q]!.id)?.has(id!) === true));
    const answer = share((q) =>
      found[q]!.some(({ contents }) => questions[q]!.golden_answers.some((gold) => normal(contents).includes(normal(gold)))),
    );
    write(`${engine.padEnd(8)} ${passage.padEnd(9)} ${answer}`);
  }
}

/** Normalises as in the README of nq-mini: whole words, without articles and punctuation. */
function normal(text: string): string {
  return ` ${normalizeAnswer(text)} `;
}

async function printPeers(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'dense-bench-'));
  try {
    const { model, dim, rows, embeddings_url: url, query_prefix: prefix } = new DenseFolder(resolve(index!)).manifest();
    const embedder = await openEmbedder({ url, model, sendsKey: false, env: {}, signal });
    const queries = await embedder.embed(
      questions.map(({ question }) => prefix + question),
      signal,
    );
    await embedder.close();
    const table = await DenseTable.open(join(resolve(index!), 'vectors'));
    const passages: Float32Array[] = [];
    for (let row = 0; row < rows; row++) passages.push((await table.passage(row))!.vector);
    table.close();
    writeFileSync(join(folder, 'passages.f32'), bytesOf(passages));
    writeFileSync(join(folder, 'queries.f32'), bytesOf(queries));
    const search = searchOf(rows, dim, 'ivf_pq');
    if (search.kind !== 'ivf_pq') throw new Error('expected the settings of IVF-PQ');
    writeFileSync(join(folder, 'settings.json'), JSON.stringify({ rows, dim, ...search }));
    const lance = measure(process.execPath, ['--conditions=vf-search-source', here('dense-run.ts'), folder]) as DenseRun;
    const bin = peerVenv('dense', readFileSync(here('peers/dense/requirements.txt'), 'utf8').trim().split('\n'));
    const peer = measure(join(bin, 'python'), [here('peers/dense/faiss_run.py'), folder]) as PeerRun;
    printRuns(lance, peer);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface PeerRun extends DenseRun {
  /** The ten best rows of each question by numpy. */
  readonly brute: readonly (readonly number[])[];
}

function printRuns(lance: DenseRun, peer: PeerRun): void {
  const { brute } = peer;
  const equal = brute.filter((row, q) => row.every((id, i) => lance.exact.ids[q]![i] === id)).length;
  const recall = (ids: readonly (readonly number[])[]) => {
    return brute.reduce((sum, row, q) => sum + row.filter((id) => ids[q]!.includes(id)).length / row.length, 0) / brute.length;
  };
  write(
    `\nexact: the ten best of numpy's brute force in its order for ${equal} of ${brute.length} questions, recall@10 ${recall(lance.exact.ids).toFixed(4)}`,
  );
  write(`IVF-PQ, recall@10: LanceDB ${recall(lance.ivfPq.ids).toFixed(4)}, FAISS ${recall(peer.ivfPq.ids).toFixed(4)}\n`);
  const rows: [string, string, number, number][] = [
    ['exact, one query, p50', 'ms', lance.exact.p50Ms, peer.exact.p50Ms],
    ['IVF-PQ, one query, p50', 'ms', lance.ivfPq.p50Ms, peer.ivfPq.p50Ms],
    ['IVF-PQ, training and adding', 's', lance.buildS, peer.buildS],
    ['memory, peak', 'MB', lance.peakMb, peer.peakMb],
  ];
  write(`${''.padEnd(28)} ${'LanceDB'.padEnd(10)} ${'FAISS'.padEnd(10)} ratio`);
  for (const [what, unit, ours, theirs] of rows)
    write(
      `${what.padEnd(28)} ${`${ours.toPrecision(3)} ${unit}`.padEnd(10)} ${`${theirs.toPrecision(3)} ${unit}`.padEnd(10)} ${(ours / theirs).toFixed(2)}`,
    );
}

function bytesOf(vectors: readonly Float32Array[]): Buffer {
  return Buffer.concat(vectors.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)));
}

function measure(command: string, args: readonly string[]): unknown {
  const { status, stdout } = spawnSync(command, args, { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed with exit status ${status}.`);
  return JSON.parse(stdout) as unknown;
}
