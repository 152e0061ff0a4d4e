/** The `vf-index` command: builds an index from a JSON Lines corpus, of words (BM25) or of vectors; every command opens it by its folder. */
import { type Stats, statSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { buildIndexFolder } from '../retrieval/bm25/build-index-folder.ts';
import type { IndexManifest } from '../retrieval/bm25/index-manifest.ts';
import { packageVersion } from '../data/package-root.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';
import type { DenseFlags } from './index/index-dense.ts';
import { ProgressLine } from './index/progress-line.ts';
import { countText, durationText, plural } from '../reports/text/number-text.ts';
import { placeError, readingError } from './place-error.ts';
import { wholeNumber } from './serve/option-values.ts';

const HELP = `
A corpus has one passage per line:
  {"id": "7", "contents": "\\"Title\\"\\ntext"} or
  {"id": "7", "title": "Title", "text": "text"}

The index ranks like Lucene (EnglishAnalyzer, BM25), contains the passages and
takes almost no time to open:

  vf-index wiki-18.jsonl -o wiki-18.index
  gunzip -c wiki-18.jsonl.gz | vf-index - -o wiki-18.index
  vf-eval search-r1 -n 50 -a '{"corpus": "wiki-18.index"}'
  vf-serve retrieve --corpus wiki-18.index

Building needs about 0.7 GB of memory per million passages of 100 words, and 1.5
times the corpus in disk space.

With --dense every passage becomes a vector, made by a model behind any
/v1/embeddings. After Ctrl-C, a crash or kill -9 the same command continues:

  vllm serve intfloat/e5-base-v2 --runner pooling --port 8001
  vf-index wiki-18.jsonl -o wiki-18.dense -m intfloat/e5-base-v2 \\
      --dense http://127.0.0.1:8001
  vf-eval search-r1 -n 50 -a '{"engine": "dense", "corpus": "wiki-18.dense"}'
  vf-eval search-r1 -n 50 -a '{"engine": "hybrid", "corpus": "wiki-18.dense"}'

Without a server, a Qwen3-Embedding runs in this process, on the CPU:

  vf-index passages.jsonl -o my.dense --dense embedded -m Qwen3-Embedding-0.6B/

--dense needs LanceDB: npm install @lancedb/lancedb@0.39.0. vf-index knows the
prefixes of E5, BGE, Qwen3-Embedding and others; --query-prefix and
--passage-prefix change them. A key is read from EMBEDDINGS_API_KEY.
docs/dense-retrieval.md says more.`;

interface Flags extends Omit<DenseFlags, 'dense'> {
  readonly dense?: string;
  readonly output: string;
  readonly k1?: number;
  readonly b?: number;
  readonly force?: true;
  readonly json?: true;
}

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-index')
    .description('Builds an index of a corpus, for searches without a server: BM25, or vectors too.')
    .argument('<corpus>', 'JSON Lines, one passage per line; - is stdin')
    .requiredOption('-o, --output <folder>', 'folder to create')
    .option('--k1 <number>', 'term-frequency saturation, at least 0 (default: 0.9, as in pyserini)', number)
    .option('--b <number>', 'length normalisation, 0 to 1 (default: 0.4, as in pyserini)', number)
    .option('--dense <url>', 'embed the passages with the model of this server; "embedded" computes the vectors in this process')
    .option('-m, --model <name>', 'the model that embeds: its name on the server, or the directory of a Qwen3-Embedding')
    .option('--query-prefix <text>', "text before every query (default: the model's own)")
    .option('--passage-prefix <text>', "text before every passage (default: the model's own)")
    .option('--no-bm25', 'build no BM25 index beside the vectors; the engine "hybrid" then cannot search')
    .option('--exact', 'compare every vector (default: up to 65,536 passages)')
    .option('--ivf-pq', 'compare a part of the vectors, by IVF-PQ (default: above 65,536 passages)')
    .option('--batch-size <n>', 'texts in one request (default: 64)', wholeNumber(1, 4096))
    .option('--concurrency <n>', 'requests at a time (default: 4)', wholeNumber(1, 1024))
    .option('--write-every <n>', 'passages in memory before they are written (default: 16,384)', wholeNumber(1, 1_000_000))
    .option('--force', 'replace an existing index')
    .option('--json', 'one JSON object about the index on stdout')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  return index(program.args[0]!, program.opts<Flags>(), context);
}

function number(text: string): number {
  const value = text.trim() === '' ? NaN : Number(text);
  if (!Number.isFinite(value)) throw new InvalidArgumentError('It must be a number.');
  return value;
}

async function index(corpus: string, flags: Flags, context: CommandContext): Promise<number> {
  const { output, k1, b, force, json, dense } = flags;
  if (output === '') throw new ConfigError('-o is empty; name a folder');
  assertOneKind(flags);
  const isPiped = corpus === '-';
  const progress = new ProgressLine(isPiped ? null : corpusBytes(corpus), (text) => process.stderr.write(text));
  if (dense !== undefined) {
    const { indexDense } = await import('./index/index-dense.ts');
    const job = { corpus, isPiped, output, force: force === true, json: json === true, flags: { ...flags, dense }, progress };
    return indexDense(job, context)
      .catch((error: unknown) => {
        throw readingError(placeError(error, { flag: '-o', path: output }), { what: 'the corpus', path: corpus });
      })
      .finally(() => progress.end());
  }
  const startedAt = performance.now();
  let manifest: IndexManifest;
  try {
    manifest = await buildIndexFolder({
      corpus: isPiped ? 'stdin' : corpus,
      ...(isPiped && { stream: process.stdin }),
      target: output,
      overwrite: force === true,
      ...(k1 !== undefined && { k1 }),
      ...(b !== undefined && { b }),
      signal: context.signal,
      onProgress: (at) => progress.show(at),
    });
  } catch (error) {
    throw readingError(placeError(error, { flag: '-o', path: output }), { what: 'the corpus', path: corpus });
  } finally {
    progress.end();
  }
  const seconds = (performance.now() - startedAt) / 1000;
  if (json) process.stdout.write(`${JSON.stringify(summary(manifest, output, seconds))}\n`);
  else
    context.note(`vf-index: ${plural(manifest.rows, 'passage')}, ${countText(manifest.terms)} terms in ${durationText(seconds)}; ${output} is ready`);
  return EXIT.done;
}

/** Throws ConfigError for a flag of the other kind of index. */
function assertOneKind({ dense, model, queryPrefix, passagePrefix, bm25, exact, ivfPq, batchSize, concurrency, writeEvery, k1, b }: Flags): void {
  const vectors = { '-m': model, '--query-prefix': queryPrefix, '--passage-prefix': passagePrefix, '--exact': exact, '--ivf-pq': ivfPq };
  const all = {
    ...vectors,
    '--batch-size': batchSize,
    '--concurrency': concurrency,
    '--write-every': writeEvery,
    '--no-bm25': bm25 ? undefined : true,
  };
  const given = Object.entries(dense === undefined ? all : { '--k1': k1, '--b': b }).find(([, value]) => value !== undefined);
  if (given === undefined) return;
  throw new ConfigError(
    dense === undefined ? `${given[0]} is for an index of vectors; add --dense <url>` : `${given[0]} is for BM25 alone; leave it or --dense out`,
  );
}

function summary({ corpus, rows, terms, tokens, k1, b, shards }: IndexManifest, output: string, seconds: number): Record<string, unknown> {
  return { index: output, corpus: corpus.name, sha256: corpus.sha256, rows, terms, tokens, shards: shards.length, k1, b, seconds };
}

/** Throws ConfigError if there is no file. */
function corpusBytes(path: string): number {
  const stats = statOf(path);
  if (stats === undefined) throw new ConfigError(`The file ${path} does not exist; name a JSON Lines corpus, or - for stdin`);
  if (stats.isDirectory()) throw new ConfigError(`The corpus must be a file, but ${path} is a folder`);
  return stats.size;
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw readingError(error, { what: 'the corpus', path });
  }
}

await runCommand('vf-index', main);
