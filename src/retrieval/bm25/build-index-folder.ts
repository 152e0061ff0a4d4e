import { unlessDiskFull } from '../../files/disk-full.ts';
import { CancelledError } from '../../core/errors.ts';
import { Bm25Index, type Bm25Parameters, checkParameters, defaultParameters } from './bm25-index.ts';
import { type CorpusProgress, type CorpusStreamOptions, readCorpus } from './corpus-stream.ts';
import { IndexBuilder } from './index-builder.ts';
import { IndexWriter } from './index-folder.ts';
import type { IndexManifest } from './index-manifest.ts';
import { openCorpus, type OpenCorpusOptions } from './open-corpus.ts';

export interface BuildIndexOptions extends Partial<Bm25Parameters>, OpenCorpusOptions, Pick<CorpusStreamOptions, 'onNotice'> {
  /** Path of the corpus, also packed; with `stream` only its name. */
  readonly corpus: string;
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
  const { corpus, target, overwrite = false, signal, onProgress, onNotice } = options;
  const parameters = { k1: options.k1 ?? defaultParameters.k1, b: options.b ?? defaultParameters.b };
  checkParameters(parameters);
  const writer = new IndexWriter(target, { overwrite });
  try {
    const builder = new IndexBuilder();
    const { stream } = await openCorpus(corpus, options);
    const facts = await readCorpus(stream, {
      name: corpus,
      onPassage: ({ contents }) => builder.add(contents),
      onChunk: (chunk) => writer.appendCorpus(chunk),
      ...(signal && { signal }),
      ...(onProgress && { onProgress }),
      ...(onNotice && { onNotice }),
    });
    const index = new Bm25Index(builder.finish());
    // Inverting the lists takes seconds on a large corpus and cannot be aborted meanwhile.
    await new Promise((done) => setImmediate(done));
    if (signal?.aborted) throw new CancelledError(`Stopped before ${target} was written`, { cause: signal.reason });
    return writer.finish(index, facts, { name: corpus, ...parameters });
  } catch (error) {
    writer.discard();
    throw unlessDiskFull(error, target);
  }
}
