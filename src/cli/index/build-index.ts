/** `vf-index`: builds an index of words, or hands over to `index-dense.ts`. */
import { type Stats, statSync } from 'node:fs';
import { ConfigError } from '../../core/errors.ts';
import { isPacked } from '../../files/packed-file.ts';
import { countText, durationText, plural } from '../../reports/text/number-text.ts';
import { buildIndexFolder } from '../../retrieval/bm25/build-index-folder.ts';
import type { OpenCorpusOptions } from '../../retrieval/bm25/open-corpus.ts';
import type { IndexManifest } from '../../retrieval/bm25/index-manifest.ts';
import type { CommandContext } from '../command-line.ts';
import type { IndexOptions } from '../commands/vf-index.ts';
import { placeError, readingError } from '../../files/place-error.ts';
import { passageColumns } from '../options/shared-options.ts';
import { ProgressLine } from './progress-line.ts';
import { jsonLine } from '../../reports/text/terminal-text.ts';

interface IndexRequest {
  readonly options: IndexOptions;
  /** The options that were given, with their spelling. */
  readonly given: ReadonlyMap<keyof IndexOptions, string>;
}

export async function buildIndex(corpus: string, { options, given }: IndexRequest, context: CommandContext): Promise<void> {
  assertOneKind(given);
  const progress = new ProgressLine(corpus === '-' ? null : corpusBytes(corpus), (text) => process.stderr.write(text));
  const { dense, output } = options;
  try {
    if (dense === undefined) return await indexWords(corpus, options, progress, context);
    const { indexDense } = await import('./index-dense.ts');
    return await indexDense(corpus, { ...options, dense }, progress, context);
  } catch (error) {
    throw readingError(placeError(error, { flag: '-o', path: output }), { what: 'the corpus', path: corpus });
  } finally {
    progress.end();
  }
}

async function indexWords(corpus: string, options: IndexOptions, progress: ProgressLine, context: CommandContext): Promise<void> {
  const { output, k1, b, force = false, json = false } = options;
  const startedAt = performance.now();
  const notices: string[] = [];
  const manifest = await buildIndexFolder({
    ...corpusOf(corpus, options),
    target: output,
    overwrite: force,
    ...(k1 !== undefined && { k1 }),
    ...(b !== undefined && { b }),
    signal: context.signal,
    onProgress: (at) => progress.show(at),
    onNotice: (line) => notices.push(line),
  });
  progress.end();
  for (const line of notices) context.note(`vf-index: ${line}`);
  const seconds = (performance.now() - startedAt) / 1000;
  context.saved = output;
  if (json) process.stdout.write(jsonLine(summary(manifest, output, seconds)));
  else
    context.note(`vf-index: ${plural(manifest.rows, 'passage')}, ${countText(manifest.terms)} terms in ${durationText(seconds)}; ${output} is ready`);
}

/** The source of the passages. */
export function corpusOf(corpus: string, options: IndexOptions): OpenCorpusOptions & { readonly corpus: string } {
  const columns = passageColumns(options);
  return corpus === '-' ? { corpus: 'stdin', stream: process.stdin, columns } : { corpus, columns };
}

const OF_WORDS = ['k1', 'b'] as const;
const OF_VECTORS = [
  'model',
  'queryPrefix',
  'passagePrefix',
  'noBm25',
  'exact',
  'ivfPq',
  'batchSize',
  'concurrency',
  'maxWait',
  'writeEvery',
] as const;

/** Throws ConfigError for an option of the other kind of index. */
function assertOneKind(given: IndexRequest['given']): void {
  const isDense = given.has('dense');
  const other = (isDense ? OF_WORDS : OF_VECTORS).find((name) => given.has(name));
  if (other === undefined) return;
  const flag = given.get(other)!;
  throw new ConfigError(isDense ? `${flag} is for BM25 alone; leave it or --dense out` : `${flag} is for an index of vectors; add --dense <url>`);
}

function summary({ corpus, rows, terms, tokens, k1, b, shards }: IndexManifest, output: string, seconds: number): Record<string, unknown> {
  return { index: output, corpus: corpus.name, sha256: corpus.sha256, rows, terms, tokens, shards: shards.length, k1, b, seconds };
}

/** The size of the corpus; null if it is packed or no JSON Lines, because progress counts bytes of JSON Lines. Throws ConfigError if there is no such file. */
function corpusBytes(path: string): number | null {
  const stats = statOf(path);
  if (stats === undefined) throw new ConfigError(`The file ${path} does not exist; name a corpus, or - for stdin`);
  if (stats.isDirectory())
    throw new ConfigError(`The corpus must be a file, but ${path} is a folder; docs/data.md shows how to make a corpus of its files`);
  return isPacked(path) || !/\.(?:jsonl|ndjson)$/i.test(path) ? null : stats.size;
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw readingError(error, { what: 'the corpus', path });
  }
}
