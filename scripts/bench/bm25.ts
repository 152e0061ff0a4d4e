/**
 * Compares the index with bm25s and numba on the same passages, questions and machine; they alternate, with one thread each:
 *
 *     node --conditions=vf-search-source scripts/bench/bm25.ts [--rows 100000] [--rounds 3] [--json]
 *
 * Prints the median of the rounds for each figure, and the ratio to bm25s with its bar. The rankings differ: bm25s splits words in its own way,
 * ours as Lucene does. The peer's virtual environment and the corpora are created on first use in VF_BENCH_DIR or the user's cache folder.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { syntheticCorpus } from './bm25-corpus.ts';
import { measurement, type Pair, report } from './measurement.ts';
import { peerVenv } from './peer-venv.ts';

type Figure = 'p50_ms' | 'p95_ms' | 'index_s' | 'index_cpu_s' | 'index_mb' | 'peak_mb';
type Run = Record<Figure, number>;

/** Each figure's name, unit, and largest promised ratio to bm25s. */
const figures: Readonly<Record<Figure, { readonly what: string; readonly unit: string; readonly bar: number }>> = {
  p50_ms: { what: 'query, p50', unit: 'ms', bar: 0.6 },
  p95_ms: { what: 'query, p95', unit: 'ms', bar: 1 },
  index_s: { what: 'indexing, wall clock', unit: 's', bar: 0.4 },
  index_cpu_s: { what: 'indexing, CPU', unit: 's', bar: 0.4 },
  index_mb: { what: 'memory with the index', unit: 'MB', bar: 0.5 },
  peak_mb: { what: 'peak memory of indexing', unit: 'MB', bar: 0.5 },
};

const { values } = parseArgs({
  options: { rows: { type: 'string', default: '100000' }, rounds: { type: 'string', default: '3' }, json: { type: 'boolean' } },
});
const rows = Number(values.rows);
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const requirements = readFileSync(here('peers/bm25/requirements.txt'), 'utf8').trim().split('\n');
const bin = peerVenv('bm25', requirements);
const directory = dirname(dirname(bin));
const corpus = syntheticCorpus(rows, directory);
const questions = join(directory, 'questions.txt');
writeFileSync(questions, ['train', 'test'].flatMap(readQuestions).join('\n'));

const ours: Run[] = [];
const theirs: Run[] = [];
for (let round = 0; round < Number(values.rounds); round++) {
  theirs.push(measure(join(bin, 'python'), [here('peers/bm25/bm25s_run.py'), corpus, questions]));
  ours.push(measure(process.execPath, ['--expose-gc', here('bm25-run.mjs'), corpus, questions]));
}
const pairs = (figure: Figure): Pair[] => ours.map((run, round) => ({ ours: run[figure], peer: theirs[round]![figure] }));
report(
  (Object.keys(figures) as Figure[]).map((figure) => {
    const { what, ...about } = figures[figure];
    return measurement(
      { ...about, what: `BM25, ${rows.toLocaleString('en')} passages: ${what}`, against: requirements[0]!.replace('==', ' ') },
      pairs(figure),
    );
  }),
);

function readQuestions(split: string): string[] {
  const text = readFileSync(here(`../../datasets/nq-mini/${split}.jsonl`), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { question: string }).question);
}

function measure(command: string, args: readonly string[]): Run {
  const { status, stdout } = spawnSync(command, args, { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed with exit status ${status}.`);
  process.stderr.write(stdout);
  return JSON.parse(stdout) as Run;
}
