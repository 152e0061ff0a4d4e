/**
 * The command against verifiers 0.1.14's `vf-eval`, same two-turn task over the same instant HTTP server: CPU per episode at n 2,000, wall time at
 * n 1, and `--help` against `node -e 0`. Needs `npm run build`; Linux and python3. `node --conditions=source scripts/bench/vf-eval.ts [runs=3]`.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { peerVenv } from './peer-venv.ts';
import { benchQuestions } from './two-turn-task.ts';

const here = import.meta.dirname;
const root = join(here, '../..');
const EPISODES = 2000;

interface Cost {
  readonly wall_s: number;
  readonly cpu_s: number;
}

export interface CommandBench {
  readonly cpuPerEpisodeMs: { readonly ours: number; readonly peer: number };
  readonly oneEpisodeWallS: { readonly ours: number; readonly peer: number };
  readonly helpWallS: { readonly ours: number; readonly peer: number };
}

/** Median wall and CPU seconds of a command with all its children. Throws unless it exits with 0. */
function cost(runs: number, command: readonly string[], env: Readonly<Record<string, string>>): Cost {
  const { stdout } = spawnSync('python3', [join(here, 'peers/cpu.py'), String(runs), ...command], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  const result = JSON.parse(stdout) as Cost & { exit: number };
  if (result.exit !== 0) throw new Error(`Expected ${command.join(' ')} to exit with 0, got ${result.exit}`);
  return result;
}

async function startServer(): Promise<{ url: string; child: ChildProcess }> {
  const child = spawn(process.execPath, [join(here, 'loopback-chat.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  return { url: `http://127.0.0.1:${port.toString().trim()}/v1`, child };
}

export async function benchCommand(runs: number): Promise<CommandBench> {
  const scratch = mkdtempSync(join(tmpdir(), 'vf-bench-'));
  const { url, child } = await startServer();
  try {
    const questions = join(scratch, 'questions.jsonl');
    writeFileSync(
      questions,
      benchQuestions(EPISODES)
        .map((q) => `${JSON.stringify(q)}\n`)
        .join(''),
    );
    const env = { DUMMY_KEY: 'x', QUESTIONS: questions, PYTHONPATH: join(here, 'peers/verifiers') };
    const ours = (n: number) => [
      process.execPath,
      join(root, 'bin/vf-eval.js'),
      join(here, 'two-turn-task.ts'),
      ...endpoint(n),
      '--plain',
      '-o',
      scratch,
    ];
    const theirs = join(peerVenv('verifiers-v0', ['verifiers==0.1.14']), 'vf-eval');
    const peer = (n: number) => [theirs, 'searchr1_peer', ...endpoint(n), '-d', '-A', '--disable-env-server'];
    const endpoint = (n: number) => ['-m', 'instant', '-b', url, '-k', 'DUMMY_KEY', '-n', String(n), '-r', '1', '-c', '32'];

    // Once each without counting: compile caches and page caches are warm for both.
    cost(1, ours(1), env);
    cost(1, peer(1), env);
    const many = { ours: cost(runs, ours(EPISODES), env), peer: cost(runs, peer(EPISODES), env) };
    const one = { ours: cost(runs + 2, ours(1), env), peer: cost(runs, peer(1), env) };
    const help = {
      ours: cost(11, [process.execPath, join(root, 'bin/vf-eval.js'), '--help'], env),
      peer: cost(11, [process.execPath, '-e', '0'], env),
    };
    return {
      cpuPerEpisodeMs: { ours: (many.ours.cpu_s * 1e3) / EPISODES, peer: (many.peer.cpu_s * 1e3) / EPISODES },
      oneEpisodeWallS: { ours: one.ours.wall_s, peer: one.peer.wall_s },
      helpWallS: { ours: help.ours.wall_s, peer: help.peer.wall_s },
    };
  } finally {
    child.kill();
    rmSync(scratch, { recursive: true });
  }
}

if (import.meta.main) {
  const bench = await benchCommand(Number(process.argv[2] ?? 3));
  for (const [what, { ours, peer }] of Object.entries(bench) as [string, { ours: number; peer: number }][]) {
    process.stdout.write(`${what}: ours ${ours.toFixed(3)}, peer ${peer.toFixed(3)}, ratio ${(ours / peer).toFixed(3)}\n`);
  }
}
