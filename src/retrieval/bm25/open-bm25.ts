/** Opens passages, a corpus file or an index folder as a BM25 Retriever. Searches run on the calling thread. */
import { statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { CancelledError, ConfigError } from '../../core/errors.ts';
import { makeFolder } from '../../files/make-folder.ts';
import type { Passage, Retriever } from '../retriever.ts';
import { Bm25Index, type Bm25Parameters, checkParameters, defaultParameters } from './bm25-index.ts';
import { Bm25Retriever, openPassages, parametersOf } from './bm25-retriever.ts';
import { buildIndexFolder } from './build-index-folder.ts';
import { corpusChecksum, type CorpusProgress, readCorpus } from './corpus-stream.ts';
import { ANALYZER } from './english-analyzer.ts';
import { IndexBuilder } from './index-builder.ts';
import { finishReplacement } from '../../files/replaced-folder.ts';
import { isIndexFolder, readIndexFolder } from './index-folder.ts';
import { openCorpus, type OpenCorpusOptions } from './open-corpus.ts';
import { PassageList, type PassageStore, type StoredPassage } from './passage-list.ts';
import { PassageFile } from './passage-store.ts';
import { systemText } from '../../files/system-text.ts';

export interface OpenBm25Options extends Partial<Bm25Parameters>, Pick<OpenCorpusOptions, 'columns'> {
  /** Folder that caches the index of a corpus file by the corpus's checksum. @default none: the index is built in memory each time */
  readonly cacheDir?: string;
  /** @default `bm25 <file or folder name>` */
  readonly name?: string;
  readonly signal?: AbortSignal;
  /** Called about once a megabyte while a corpus is indexed. */
  readonly onProgress?: (progress: CorpusProgress) => void;
}

const knownOptions = new Set(['k1', 'b', 'columns', 'cacheDir', 'name', 'signal', 'onProgress']);
/**
 * Opens a folder made by vf-index, a corpus (rows of `{"id", "contents"}` or `{"id", "title", "text"}`, in JSON Lines, JSON, CSV, TSV or Parquet), or passages. The passages
 * of a corpus that is packed (`.gz`, `.br`, `.zst`) or not JSON Lines are held in memory. k1 and b default to those of the index folder, else to 0.9 and 0.4. Throws ConfigError if the source cannot be used.
 *
 * @example
 * const retriever = await openBm25('corpus.jsonl', { cacheDir: '.cache' });
 */
export async function openBm25(source: string | Iterable<Passage>, options: OpenBm25Options = {}): Promise<Retriever> {
  for (const key of Object.keys(options)) {
    if (!knownOptions.has(key)) throw new ConfigError(`openBm25 has no option ${key}; its options are ${[...knownOptions].join(', ')}.`);
  }
  checkParameters({ ...defaultParameters, ...parametersOf(options, defaultParameters) });
  if (typeof source !== 'string') return openPassages(source, options);
  const name = options.name ?? `bm25 ${basename(resolve(source))}`;
  finishReplacement(source);
  const isIndex = isFolder(source);
  if (isIndex && Object.keys(options.columns ?? {}).length > 0)
    throw new ConfigError(`${source} is an index, whose passages have no columns. Name columns when it is built, or leave them out.`);
  const opened = isIndex ? openFolder(source) : await openFile(source, options);
  return new Bm25Retriever(name, opened.index, opened.passages, parametersOf(options, opened.parameters));
}

interface Opened {
  readonly index: Bm25Index;
  readonly passages: PassageStore;
  readonly parameters: Bm25Parameters;
}

function openFolder(path: string): Opened {
  const { index, passages, manifest } = readIndexFolder(path);
  return { index, passages, parameters: { k1: manifest.k1, b: manifest.b } };
}

async function openFile(path: string, options: OpenBm25Options): Promise<Opened> {
  const { cacheDir, signal, onProgress } = options;
  if (cacheDir !== undefined) return openCached(path, cacheDir, options);
  const builder = new IndexBuilder();
  const { stream, isFile: canReadAgain } = await openCorpus(path, options);
  const held: StoredPassage[] | null = canReadAgain ? null : [];
  const facts = await readCorpus(stream, {
    name: path,
    onPassage: ({ id, contents }) => {
      builder.add(contents);
      held?.push({ id: id ?? String(held.length), contents });
    },
    ...(signal && { signal }),
    ...(onProgress && { onProgress }),
  });
  const passages = held === null ? new PassageFile(path, facts) : new PassageList(held);
  return { index: new Bm25Index(builder.finish()), passages, parameters: defaultParameters };
}

/** Two processes may build the same index at once: the first to finish renames its own, the other reads that one. */
async function openCached(path: string, cacheDir: string, options: OpenBm25Options): Promise<Opened> {
  const { signal, onProgress } = options;
  makeFolder(cacheDir);
  const target = join(
    cacheDir,
    `${ANALYZER}-${(await corpusChecksum(await openCorpus(path, options), { name: path, ...(signal && { signal }) })).slice(0, 32)}`,
  );
  const cached = isIndexFolder(target) ? openWhole(target) : null;
  if (cached !== null) return cached;
  try {
    const { columns } = options;
    await buildIndexFolder({
      corpus: path,
      ...(columns && { columns }),
      target,
      overwrite: true,
      ...(signal && { signal }),
      ...(onProgress && { onProgress }),
    });
  } catch (error) {
    const others = error instanceof CancelledError ? null : openWhole(target);
    if (others === null) throw error;
    return others;
  }
  return openFolder(target);
}

/** The index in the folder; null if it is missing or damaged and must be rebuilt. */
function openWhole(path: string): Opened | null {
  try {
    return openFolder(path);
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/** Throws ConfigError if the path is missing or unreadable. */
function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (cause) {
    const problem = (cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'it does not exist' : systemText(cause);
    throw new ConfigError(`Could not open ${path} as a corpus (.jsonl) or an index of vf-index: ${problem}`, { cause });
  }
}
