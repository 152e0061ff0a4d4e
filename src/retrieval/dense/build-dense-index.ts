/**
 * Embeds a corpus into the folder of a dense index. Passages stream through: memory holds a batch of them, whatever the size of the corpus. Written batches stay, so
 * that a killed build goes on where it stopped.
 */
import { existsSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { ConfigError } from '../../core/errors.ts';
import { unlessDiskFull } from '../../files/disk-full.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { finishReplacement, replaceFolder } from '../../files/replaced-folder.ts';
import { lockRun } from '../../files/run-lock.ts';
import { hidden, removeLeftOvers } from '../../files/temporary-names.ts';
import { buildIndexFolder } from '../bm25/build-index-folder.ts';
import { type CorpusProgress, type CorpusStreamOptions, streamCorpus } from '../bm25/corpus-stream.ts';
import { openCorpus, type OpenCorpusOptions } from '../bm25/open-corpus.ts';
import { readIndexFolder } from '../bm25/index-folder.ts';
import { CommitWriter } from './commit-writer.ts';
import { type BuildState, DenseFolder } from './dense-folder.ts';
import { DENSE_FORMAT, DENSE_VERSION, type DenseManifest, sealDenseManifest } from './dense-manifest.ts';
import { DenseTable } from './dense-table.ts';
import type { Embedder, Prefixes } from './embedder.ts';
import { embeddedInOrder } from './embedded-in-order.ts';
import { loadLanceLibrary } from './lance-library.ts';
import { type CorpusFacts, PassageReader } from './passage-reader.ts';
import { assertSameModel } from './same-model.ts';
import { searchOf, type SearchKind } from './search-settings.ts';
import { vectorChecksums } from './vector-checksums.ts';

export interface BuildDenseOptions extends OpenCorpusOptions, Pick<CorpusStreamOptions, 'onNotice'> {
  /** Path of the corpus; with `stream` only its name. */
  readonly corpus: string;
  /** The folder to create or to continue. */
  readonly target: string;
  readonly embedder: Embedder;
  readonly prefixes: Prefixes;
  /** URL of the server, without credentials, for the manifest; null for the embedded engine. */
  readonly embeddingsUrl: string | null;
  /** Also a BM25 index, for hybrid retrieval. @default true */
  readonly bm25?: boolean;
  /** Replaces an existing index once the new one is whole, and starts an unfinished one over. @default false */
  readonly overwrite?: boolean;
  /** @default by the number of passages */
  readonly search?: SearchKind;
  /** Passages that are written at a time; after 30 seconds fewer are written. @default 16384, 64 MB of vectors of 1,024 numbers */
  readonly commitRows?: number;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: DenseProgress) => void;
}

export interface DenseProgress extends CorpusProgress {
  readonly phase: 'bm25' | 'embedding' | 'indexing';
  /** Passages that an earlier build embedded. */
  readonly resumedRows: number;
}

/** Throws ConfigError, RetrievalError or CancelledError; written batches stay, and the same call continues with them. */
export async function buildDenseIndex(options: BuildDenseOptions): Promise<DenseManifest> {
  await loadLanceLibrary();
  const target = resolve(options.target);
  finishReplacement(target);
  removeLeftOvers(target);
  const folder = new DenseFolder(existsSync(target) ? realpathSync(target) : target);
  const next = new DenseFolder(`${hidden(folder.path)}.next`);
  if (!folder.isComplete || !(options.overwrite === true || next.state() !== null)) return build(folder, options);
  // The old index stays until the new one is whole; a replacement that was interrupted goes on without --force, as any build.
  folder.assertReplaceable({ overwrite: true });
  const manifest = await build(next, options);
  replaceFolder(next.path, folder.path);
  return manifest;
}

async function build(folder: DenseFolder, options: BuildDenseOptions): Promise<DenseManifest> {
  makeFolder(folder.path);
  await using _ = await lockRun(folder.path);
  const state = openState(folder, options);
  await folder.keepState(state);
  const source = await corpusSource(folder, options);
  const table = await DenseTable.open(folder.vectors);
  try {
    const facts = await embedCorpus({ folder, table, state, source, options });
    const search = searchOf(facts.rows, facts.dim, options.search);
    options.onProgress?.({ phase: 'indexing', rows: facts.rows, bytes: facts.bytes, resumedRows: facts.resumedRows });
    await table.finish(search);
    const { model, query_prefix, passage_prefix, embeddings_url, bm25 } = state;
    const manifest = sealDenseManifest({
      format: DENSE_FORMAT,
      version: DENSE_VERSION,
      model,
      dim: facts.dim,
      metric: 'cosine',
      query_prefix,
      passage_prefix,
      embeddings_url,
      corpus: { name: options.corpus, sha256: facts.sha256, bytes: facts.bytes },
      rows: facts.rows,
      search,
      bm25,
      files: await vectorChecksums(folder.vectors, options.signal),
    });
    await folder.seal(manifest);
    return manifest;
  } catch (error) {
    throw unlessDiskFull(error, folder.path);
  } finally {
    table.close();
  }
}

/** The state of the build that goes on, or of a new one. */
function openState(
  folder: DenseFolder,
  { corpus, embedder, prefixes, embeddingsUrl, bm25 = true, overwrite = false }: BuildDenseOptions,
): BuildState {
  const asked = { model: embedder.model, query_prefix: prefixes.query, passage_prefix: prefixes.passage, corpus, bm25 };
  const found = overwrite || folder.isComplete ? null : folder.state();
  if (found === null) {
    folder.clear({ overwrite });
    return { format: DENSE_FORMAT, version: DENSE_VERSION, ...asked, embeddings_url: embeddingsUrl, dim: null, commits: [] };
  }
  folder.sweep();
  for (const [name, value] of Object.entries(asked) as [keyof typeof asked, unknown][]) {
    if (found[name] === value) continue;
    const was = JSON.stringify(found[name]);
    throw new ConfigError(
      `${folder.path} holds an unfinished index with ${name} ${was}, not ${JSON.stringify(value)}. Continue with that, or start over with --force.`,
    );
  }
  return { ...found, embeddings_url: embeddingsUrl };
}

interface CorpusSource {
  readonly name: string;
  readonly open: () => Promise<Readable>;
}

/** Builds the BM25 index first, which keeps the corpus: it is then read from there, so that a piped corpus can be read twice. */
async function corpusSource(
  folder: DenseFolder,
  { corpus, stream, columns, bm25 = true, signal, onProgress, onNotice }: BuildDenseOptions,
): Promise<CorpusSource> {
  const given = async () => (await openCorpus(corpus, { ...(stream && { stream }), ...(columns && { columns }) })).stream;
  if (!bm25) return { name: corpus, open: given };
  if (!folder.hasBm25) {
    await buildIndexFolder({
      corpus,
      stream: await given(),
      target: folder.bm25,
      signal,
      onProgress: (at) => onProgress?.({ ...at, phase: 'bm25', resumedRows: 0 }),
      ...(onNotice && { onNotice }),
    });
  } else {
    const { manifest, passages } = readIndexFolder(folder.bm25);
    passages.close();
    if ((await checksum(await given(), corpus, signal)) !== manifest.corpus.sha256)
      throw new ConfigError(`${corpus} is not the corpus that ${folder.path} was begun with. Restore it, or start over with --force.`);
  }
  return { name: corpus, open: async () => (await openCorpus(join(folder.bm25, 'passages.jsonl'))).stream };
}

async function checksum(stream: Readable, name: string, signal: AbortSignal): Promise<string> {
  let sha256: string | null = null;
  for await (const piece of streamCorpus(stream, { name, signal })) sha256 = piece.sha256;
  return sha256!;
}

interface EmbeddingJob {
  readonly folder: DenseFolder;
  readonly table: DenseTable;
  readonly state: BuildState;
  readonly source: CorpusSource;
  readonly options: BuildDenseOptions;
}

interface EmbeddedFacts extends CorpusFacts {
  readonly dim: number;
  readonly resumedRows: number;
}

async function embedCorpus({ folder, table, state, source, options }: EmbeddingJob): Promise<EmbeddedFacts> {
  const { embedder, prefixes, signal, onProgress } = options;
  const resumedRows = await table.rows();
  if (resumedRows > 0) await assertSameModel({ table, embedder, prefix: prefixes.passage, index: folder.path, signal });
  const writer = new CommitWriter({ folder, table, state, rows: resumedRows, commitRows: options.commitRows ?? 16_384 });
  const reader = new PassageReader({ ...source, skipped: resumedRows, commits: state.commits });
  const batches = reader.batches(await source.open(), embedder.batchSize, signal);
  for await (const batch of embeddedInOrder(batches, { embedder, prefix: prefixes.passage, signal })) {
    await writer.add(batch);
    onProgress?.({ phase: 'embedding', rows: writer.rows, bytes: batch.bytes, resumedRows });
  }
  await writer.commit();
  const dim = writer.dim ?? (await table.passage(0))!.vector.length;
  return { ...reader.facts(), dim, resumedRows };
}
