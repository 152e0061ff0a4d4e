/**
 * Compares the command with verifiers 0.1.14's `vf-eval` on the same two-turn task, questions, flags and instant HTTP server: CPU per episode at n 2,000,
 * including start-up and files; wall clock at n 1; `--help` against `node -e 0`. Needs `npm run build`, Linux and python3.
 * `node --conditions=vf-search-source scripts/bench/vf-eval.ts [--runs 3] [--json]`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { commandCost, type Cost } from './command-cost.ts';
import { type Measurement, measurement, type Pair, report } from './measurement.ts';
import { verifiersVenv } from './peer-venv.ts';
import { benchQuestions, writeQuestions } from './two-turn-task.ts';

const here = import.meta.dirname;
const program = join(here, '../../bin/vf-eval.js');
const EPISODES = 2000;

async function startServer(): Promise<{ url: string; child: ChildProcess }> {
  const child = spawn(process.execPath, [join(here, 'loopback-chat.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  return { url: `http://127.0.0.1:${port.toString().trim()}/v1`, child };
}

function benchCommand(runs: number, url: string, scratch: string): Measurement[] {
  const questions = writeQuestions(benchQuestions(EPISODES), scratch);
  const env = { BENCH_KEY: 'sk-bench', QUESTIONS: questions, PYTHONPATH: join(here, 'peers/verifiers') };
  const endpoint = (n: number) => ['-m', 'instant', '-b', url, '-k', 'BENCH_KEY', '-n', String(n), '-r', '1', '-c', '32'];
  const ours = (n: number) => [process.execPath, program, join(here, 'two-turn-task.ts'), ...endpoint(n), '--plain', '-o', scratch];
  const cost = (command: readonly string[]) => commandCost(command, { env });
  const peerProgram = join(verifiersVenv(), 'vf-eval');
  const theirs = (n: number) => [peerProgram, 'searchr1_peer', ...endpoint(n), '-d', '-A', '--disable-env-server'];
  const pairs = (count: number, mine: readonly string[], peers: readonly string[], of: (cost: Cost) => number): Pair[] =>
    Array.from({ length: count }, () => ({ peer: of(cost(peers)), ours: of(cost(mine)) }));

  // One uncounted run each, to warm the compile and page caches.
  cost(ours(1));
  cost(theirs(1));
  const cpuMs = ({ cpu_s: seconds }: Cost) => (seconds * 1e3) / EPISODES;
  const wallS = ({ wall_s: seconds }: Cost) => seconds;
  const against = 'verifiers 0.1.14';
  const help = pairs(runs * 5, [process.execPath, program, '--help'], [process.execPath, '-e', '0'], (run) => run.wall_s * 1e3);
  return [
    measurement(
      { what: 'vf-eval -n 2000 -c 32, CPU per episode', unit: 'ms', against, bar: 1 / 5 },
      pairs(runs, ours(EPISODES), theirs(EPISODES), cpuMs),
    ),
    measurement({ what: 'vf-eval -n 1, wall clock', unit: 's', against, bar: 1 / 4 }, pairs(runs * 2, ours(1), theirs(1), wallS)),
    measurement({ what: 'vf-eval --help, wall clock', unit: 'ms', against: 'node -e 0', bar: 3 }, help),
  ];
}

const { values } = parseArgs({ options: { runs: { type: 'string', default: '3' }, json: { type: 'boolean' } } });
const scratch = mkdtempSync(join(tmpdir(), 'vf-bench-'));
const { url, child } = await startServer();
try {
  report(benchCommand(Number(values.runs), url, scratch));
} finally {
  child.kill();
  rmSync(scratch, { recursive: true });
}
