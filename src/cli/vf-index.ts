/** The `vf-index` command: builds a BM25 index from a JSON Lines corpus; every command opens it by its folder. */
import { type Stats, statSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { buildIndexFolder } from '../retrieval/bm25/build-index-folder.ts';
import type { CorpusProgress } from '../retrieval/bm25/corpus-stream.ts';
import type { IndexManifest } from '../retrieval/bm25/index-manifest.ts';
import { packageVersion } from '../data/package-root.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';
import { countText, durationText, plural } from './number-text.ts';
import { placeError, readingError } from './place-error.ts';

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
times the corpus in disk space.`;

interface Flags {
  readonly output: string;
  readonly k1?: number;
  readonly b?: number;
  readonly force?: true;
  readonly json?: true;
}

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-index')
    .description('Builds a BM25 index of a corpus, for searches without a server.')
    .argument('<corpus>', 'JSON Lines, one passage per line; - is stdin')
    .requiredOption('-o, --output <folder>', 'folder to create')
    .option('--k1 <number>', 'term-frequency saturation, at least 0 (default: 0.9, as in pyserini)', number)
    .option('--b <number>', 'length normalisation, 0 to 1 (default: 0.4, as in pyserini)', number)
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

async function index(corpus: string, { output, k1, b, force, json }: Flags, context: CommandContext): Promise<number> {
  if (output === '') throw new ConfigError('-o is empty; name a folder');
  const isPiped = corpus === '-';
  const progress = new ProgressLine(isPiped ? null : corpusBytes(corpus), (text) => process.stderr.write(text));
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

/** Shows how much of the corpus is read: one line rewritten in place on a terminal, occasional lines elsewhere. */
class ProgressLine {
  readonly #totalBytes: number | null;
  readonly #write: (text: string) => void;
  readonly #isTerminal = process.stderr.isTTY;
  readonly #startedAt = performance.now();
  #shownAt = performance.now();
  #isShown = false;

  /** `totalBytes`: null if unknown. */
  constructor(totalBytes: number | null, write: (text: string) => void) {
    this.#totalBytes = totalBytes;
    this.#write = write;
  }

  show({ rows, bytes }: CorpusProgress): void {
    const now = performance.now();
    if (now - this.#shownAt < (this.#isTerminal ? 100 : 5000)) return;
    this.#shownAt = now;
    const seconds = (now - this.#startedAt) / 1000;
    const total = this.#totalBytes;
    const left =
      total === null || total <= 0 ? '' : `, ${Math.floor((100 * bytes) / total)} %, ${durationText((seconds * (total - bytes)) / bytes)} left`;
    const text = `vf-index: ${countText(rows)} passages, ${countText(rows / seconds)} a second${left}`;
    this.#write(this.#isTerminal ? `\r\x1b[2K${text}` : `${text}\n`);
    this.#isShown = true;
  }

  /** Clears the terminal's line. */
  end(): void {
    if (this.#isShown && this.#isTerminal) this.#write('\r\x1b[2K');
  }
}

await runCommand('vf-index', main);
