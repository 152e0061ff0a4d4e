/**
 * The cost of Search-o1's pipeline, with the unchanged file of the document, over servers without latency: CPU seconds to start, CPU of each further question,
 * memory of 1,000 questions. `VF_BENCH_ULTRARAG_2` names a clone of OpenBMB/UltraRAG at 76c1614, which then runs the same file; without it, the
 * peer column has the figures below. Needs `npm run build`, Linux and python3.
 *
 *     node --conditions=vf-search-source scripts/bench/pipelines.ts [--runs 3] [--json]
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { parseArgs } from 'node:util';
import { commandCost } from './command-cost.ts';
import { measurement, report } from './measurement.ts';
import { peerVenv } from './peer-venv.ts';

interface Figures {
  readonly startS: number;
  readonly questionMs: number;
  readonly memoryMb: number;
}

/**
 * UltraRAG 76c1614 with Python 3.11, fastmcp 2.11.3 and openai 1.109.1, on two shared cores, 2026-11-22: `ultrarag run` with 1, 20 and 120 questions, medians
 * of three runs; memory of its 8 processes (proportional set size) with 1,000 questions.
 */
const RECORDED: Figures = { startS: 9.0, questionMs: 17.6, memoryMb: 968 };

const MANY = 1000;
/** A run of the peer takes a minute or two, and sometimes never ends. */
const PEER_DEADLINE_MS = 600_000;

const here = import.meta.dirname;
const root = join(here, '../..');
const tree = process.env['VF_BENCH_ULTRARAG_2'];

function questions(path: string, count: number): string {
  const line = (i: number) => JSON.stringify({ question: `What is the capital of France? This is question ${i}.`, golden_answers: ['Paris'] });
  writeFileSync(path, Array.from({ length: count }, (_, i) => `${line(i)}\n`).join(''));
  return path;
}

/** A run of one question and one of many: the rest for no question is the start. */
function figures(one: number, many: number, memoryMb: number): Figures {
  const questionS = (many - one) / (MANY - 1);
  return { startS: one - questionS, questionMs: questionS * 1e3, memoryMb };
}

function ours(scratch: string, port: string): Figures {
  const run = (count: number) => {
    const set = [
      `benchmark.benchmark.path=${questions(join(scratch, 'questions.jsonl'), count)}`,
      'benchmark.benchmark.limit=-1',
      `evaluation.save_path=${join(scratch, 'saved.json')}`,
      `generation.base_url=http://127.0.0.1:${port}/v1`,
      `retriever.retriever_url=http://127.0.0.1:${port}`,
    ];
    const command = [join(root, 'bin/vf-pipeline.js'), 'run', join(root, 'examples/search_o1.yaml'), '-o', join(scratch, 'outputs')];
    return commandCost([process.execPath, ...command, ...set.flatMap((each) => ['--set', each])], { env: {} });
  };
  const [one, many] = [run(1), run(MANY)];
  return figures(one.cpu_s, many.cpu_s, many.max_rss_mb);
}

/** Prepares a copy of the clone, and returns a function that measures a run. Python starts its servers by the name `python`. */
function openPeer(clone: string, scratch: string, port: string): () => Figures {
  const bin = peerVenv('pipelines', readFileSync(join(here, 'peers/pipelines/requirements.txt'), 'utf8').trim().split('\n'));
  const [python, work, file] = [join(bin, 'python'), join(scratch, 'ultrarag'), join(scratch, 'peer-questions.jsonl')];
  questions(file, 1);
  const prepare = [join(here, 'peers/pipelines/prepare_ultrarag.py'), clone, work, join(root, 'examples'), port, file];
  if (spawnSync(python, prepare, { stdio: 'inherit' }).status !== 0) throw new Error('UltraRAG could not be prepared; see its output above.');
  const env = { PYTHONPATH: join(work, 'src'), PATH: `${bin}${delimiter}${process.env['PATH']}` };
  const command = [python, '-c', 'from ultrarag.client import main; main()', 'run', 'examples/search_o1.yaml'];
  const cpu = (count: number) => {
    questions(file, count);
    return commandCost(command, { env, cwd: work }).cpu_s;
  };
  const memory = () => {
    questions(file, MANY);
    const { stdout, error, signal } = spawnSync(python, [join(here, 'peers/peak_memory.py'), ...command], {
      cwd: work,
      env: { ...process.env, ...env },
      encoding: 'utf8',
      timeout: PEER_DEADLINE_MS,
    });
    if (stdout === '') throw new Error(`The memory of UltraRAG could not be measured (${error?.message ?? signal}). Run the bench again.`);
    const { exit, peak_mb: peak } = JSON.parse(stdout) as { exit: number; peak_mb: number };
    if (exit !== 0) throw new Error(`UltraRAG ended with exit status ${exit}.`);
    return peak;
  };
  const memoryMb = memory();
  return () => figures(cpu(1), cpu(MANY), memoryMb);
}

async function startServer(): Promise<{ readonly port: string; readonly child: ChildProcess }> {
  const child = spawn(process.execPath, [join(here, 'loopback-search-o1.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  return { port: port.toString().trim(), child };
}

const { values } = parseArgs({ options: { runs: { type: 'string', default: '3' }, json: { type: 'boolean' } } });
const scratch = mkdtempSync(join(tmpdir(), 'vf-bench-'));
mkdirSync(join(scratch, 'outputs'));
const { port, child } = await startServer();
try {
  const theirs = tree === undefined ? () => RECORDED : openPeer(tree, scratch, port);
  ours(scratch, port); // warms the compile and page caches
  const pairs = Array.from({ length: Number(values.runs) }, () => ({ peer: theirs(), ours: ours(scratch, port) }));
  const against = `UltraRAG 76c1614${tree === undefined ? ', recorded' : ''}`;
  const rows = [
    { figure: 'startS', what: "Search-o1's pipeline: CPU to start", unit: 's', bar: 0.1 },
    { figure: 'questionMs', what: "Search-o1's pipeline: CPU of each further question", unit: 'ms', bar: 0.2 },
    { figure: 'memoryMb', what: "Search-o1's pipeline: memory of 1,000 questions", unit: 'MB', bar: 0.25 },
  ] as const;
  report(
    rows.map(({ figure, ...about }) =>
      measurement(
        { ...about, against },
        pairs.map((pair) => ({ ours: pair.ours[figure], peer: pair.peer[figure] })),
      ),
    ),
  );
} finally {
  child.kill();
  rmSync(scratch, { recursive: true });
}
