/** `vf-index --dense`: embeds a corpus into an index of vectors. */
import { resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { openEmbedder } from '../../registry/open-embedder.ts';
import { buildDenseIndex, type DenseProgress } from '../../retrieval/dense/build-dense-index.ts';
import type { DenseManifest } from '../../retrieval/dense/dense-manifest.ts';
import type { Prefixes } from '../../retrieval/dense/embedder.ts';
import { knownPrefixes } from '../../retrieval/dense/embedding-prefixes.ts';
import { loadLanceLibrary } from '../../retrieval/dense/lance-library.ts';
import { redactUrl } from '../../transport/redact.ts';
import type { CommandContext } from '../command-line.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { countText, durationText, plural } from '../../reports/text/number-text.ts';
import type { IndexOptions } from '../commands/vf-index.ts';
import { corpusOf } from './build-index.ts';
import type { ProgressLine } from './progress-line.ts';
import { jsonLine } from '../../reports/text/terminal-text.ts';

type DenseOptions = IndexOptions & { readonly dense: string };

export async function indexDense(corpus: string, options: DenseOptions, progress: ProgressLine, context: CommandContext): Promise<void> {
  const { dense, model: named, batchSize, concurrency, output, exact = false, ivfPq = false, noBm25 = false, force = false, json = false } = options;
  const url = dense === 'embedded' ? null : dense;
  // The index opens from other folders, too.
  const model = named === undefined || url !== null ? named : resolve(named);
  if (model === undefined && url === null)
    throw new ConfigError('--dense embedded needs the directory of a Qwen3-Embedding model, for example -m Qwen3-Embedding-0.6B/');
  if (model === undefined) throw new ConfigError('--dense needs the name of the model that the server serves, for example -m intfloat/e5-base-v2');
  await loadLanceLibrary();
  const prefixes = prefixesOf(model, options, context);
  loadEnvironmentFile('.env', process.env);
  const key = process.env['EMBEDDINGS_API_KEY'];
  if (key) context.secrets.add(key);
  const embedder = await openEmbedder({
    url,
    model,
    sendsKey: true,
    env: process.env,
    signal: context.signal,
    ...(batchSize !== undefined && { batchSize }),
    ...(concurrency !== undefined && { concurrency }),
  });
  const startedAt = performance.now();
  const notices: string[] = [];
  const again = `the same command${force ? ' without --force' : ''}`;
  context.onInterrupt = () => context.note(`vf-index: stopping; ${again} continues from here`);
  try {
    const manifest = await buildDenseIndex({
      ...corpusOf(corpus, options),
      target: output,
      embedder,
      prefixes,
      embeddingsUrl: url === null ? null : redactUrl(url),
      bm25: !noBm25,
      overwrite: force,
      ...((exact || ivfPq) && { search: exact ? 'exact' : 'ivf_pq' }),
      ...(options.writeEvery !== undefined && { commitRows: options.writeEvery }),
      signal: context.signal,
      onProgress: progressOf(progress, context),
      onNotice: (line) => notices.push(line),
    });
    progress.end();
    for (const line of notices) context.note(`vf-index: ${line}`);
    const seconds = (performance.now() - startedAt) / 1000;
    context.saved = output;
    if (json) process.stdout.write(jsonLine(summary(manifest, output, seconds)));
    else context.note(`vf-index: ${readyText(manifest, output, seconds)}`);
  } finally {
    await embedder.close();
  }
}

/** The model's own prefixes, if they are known, else those of the flags or none. */
function prefixesOf(model: string, { queryPrefix, passagePrefix }: DenseOptions, context: CommandContext): Prefixes {
  const known = knownPrefixes(model);
  if (known === null && (queryPrefix ?? passagePrefix) === undefined)
    context.note(
      `vf-index: the prefixes of ${model} are not known here, so none are added; if its card names some, pass --query-prefix and --passage-prefix`,
    );
  return { query: queryPrefix ?? known?.query ?? '', passage: passagePrefix ?? known?.passage ?? '' };
}

function progressOf(progress: ProgressLine, context: CommandContext): (at: DenseProgress) => void {
  let isResumed = false;
  let isIndexing = false;
  return (at) => {
    if (at.phase === 'embedding' && at.resumedRows > 0 && !isResumed) {
      isResumed = true;
      progress.end();
      context.note(`vf-index: continuing after ${plural(at.resumedRows, 'passage')}`);
    }
    if (at.phase === 'indexing' && !isIndexing) {
      isIndexing = true;
      progress.end();
      if (at.rows > 1_000_000) context.note(`vf-index: indexing ${countText(at.rows)} vectors`);
    }
    if (at.phase !== 'indexing') progress.show(at, at.resumedRows);
  };
}

function readyText({ rows, dim, model, search, bm25 }: DenseManifest, output: string, seconds: number): string {
  const how = search.kind === 'exact' ? 'searched exactly' : `IVF-PQ with ${countText(search.partitions)} partitions`;
  return `${plural(rows, 'passage')}, vectors of ${dim} numbers by ${model}, ${how}${bm25 ? ', with BM25' : ''}, in ${durationText(seconds)}; ${output} is ready`;
}

function summary(manifest: DenseManifest, output: string, seconds: number): Record<string, unknown> {
  const { model, dim, metric, query_prefix, passage_prefix, corpus, rows, search, bm25 } = manifest;
  return { index: output, corpus: corpus.name, sha256: corpus.sha256, rows, model, dim, metric, query_prefix, passage_prefix, search, bm25, seconds };
}
