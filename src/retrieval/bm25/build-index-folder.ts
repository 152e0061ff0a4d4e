import type { Readable } from 'node:stream';
import { CancelledError } from '../../core/errors.ts';
import { Bm25Index, type Bm25Parameters, checkParameters, defaultParameters } from './bm25-index.ts';
import { type CorpusProgress, openCorpus, readCorpus } from './corpus-stream.ts';
import { IndexBuilder } from './index-builder.ts';
import { IndexWriter } from './index-folder.ts';
import type { IndexManifest } from './index-manifest.ts';

export interface BuildIndexOptions extends Partial<Bm25Parameters> {
  /** Path of the corpus, JSON Lines, also packed; with `stream` only its name. */
  readonly corpus: string;
  /** The bytes of the corpus. @default the file `corpus` */
  readonly stream?: Readable;
  /** The folder to create. */
  readonly target: string;
  /** Replaces an existing index. @default false */
  readonly overwrite?: boolean;
  readonly signal?: AbortSignal;
  /** Called about once a megabyte. */
  readonly onProgress?: (progress: CorpusProgress) => void;
}

/** Indexes a corpus into a folder. If it fails or is stopped, nothing is left behind and an existing folder stays. */
export async function buildIndexFolder(options: BuildIndexOptions): Promise<IndexManifest> {
  const { corpus, stream, target, overwrite = false, signal, onProgress } = options;
  const parameters = { k1: options.k1 ?? defaultParameters.k1, b: options.b ?? defaultParameters.b };
  checkParameters(parameters);
  const writer = new IndexWriter(target, { overwrite });
  try {
    const builder = new IndexBuilder();
    const facts = await readCorpus(stream ?? (await openCorpus(corpus)), {
      name: corpus,
      onPassage: ({ contents }) => builder.add(contents),
      onChunk: (chunk) => writer.appendCorpus(chunk),
      ...(signal && { signal }),
      ...(onProgress && { onProgress }),
    });
    const index = new Bm25Index(builder.finish());
    // Inverting the lists takes seconds on a large corpus and cannot be aborted meanwhile.
    await new Promise((done) => setImmediate(done));
    if (signal?.aborted) throw new CancelledError(`Stopped before ${target} was written`, { cause: signal.reason });
    return writer.finish(index, facts, { name: corpus, ...parameters });
  } catch (error) {
    writer.discard();
    throw error;
  }
}
