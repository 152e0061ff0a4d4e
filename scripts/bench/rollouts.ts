/**
 * The rollout engine against verifiers 0.1.14's, same two-turn task, a policy that answers at once, in process: CPU per episode.
 * Ours keeps every token in its buffer and scores; `node --conditions=source scripts/bench/rollouts.ts [runs=5]`.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runRollouts } from 'vf-search';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { peerVenv } from './peer-venv.ts';
import { benchQuestions, TwoTurnEnv } from './two-turn-task.ts';

const EPISODES = 2000;
const CONCURRENCY = 32;
const TURNS = ['<think>I need to look this up.</think>\n<search>who is it</search>', '<think>Found.</think>\n<answer>Beijing</answer>'];

async function playAll(environment: TwoTurnEnv): Promise<number> {
  const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
  const before = process.cpuUsage();
  let rewarded = 0;
  const options = {
    environment,
    client: new ScriptedClient({ turns: TURNS }),
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    maxConcurrent: CONCURRENCY,
    timeoutMs: null,
    seed: 0,
    signal: new AbortController().signal,
  };
  for await (const rollout of runRollouts(groups, options)) {
    if (rollout.error !== null || rollout.generations.length !== 2) throw new Error(`Expected two turns and no error, got ${rollout.error?.chain}`);
    rewarded += rollout.reward!;
  }
  const { user, system } = process.cpuUsage(before);
  if (rewarded === 0) throw new Error('Expected some answer to be right: the task answers Beijing');
  return (user + system) / 1e3 / environment.eval.length;
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

export async function benchRollouts(runs: number): Promise<{ ours: number; peer: number }> {
  const questions = benchQuestions(EPISODES);
  const environment = new TwoTurnEnv(questions);
  await playAll(environment);
  const spent: number[] = [];
  for (let i = 0; i < runs; i++) spent.push(await playAll(environment));

  const directory = mkdtempSync(join(tmpdir(), 'vf-bench-'));
  try {
    const path = join(directory, 'questions.jsonl');
    writeFileSync(path, questions.map((q) => `${JSON.stringify(q)}\n`).join(''));
    const python = join(peerVenv('verifiers-v0', ['verifiers==0.1.14']), 'python');
    const script = join(import.meta.dirname, 'peers/verifiers/inprocess.py');
    const { stdout, status } = spawnSync(python, [script, String(EPISODES), String(CONCURRENCY), String(runs)], {
      encoding: 'utf8',
      env: { ...process.env, QUESTIONS: path },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (status !== 0) throw new Error(`Expected the peer to succeed, got exit status ${status}`);
    const peer = JSON.parse(stdout.trim().split('\n').at(-1)!) as { cpu_ms_per_episode: number };
    return { ours: median(spent), peer: peer.cpu_ms_per_episode };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

if (import.meta.main) {
  const { ours, peer } = await benchRollouts(Number(process.argv[2] ?? 5));
  process.stdout.write(
    `rollout engine, CPU ms per episode: ours ${ours.toFixed(4)}, verifiers 0.1.14 ${peer.toFixed(4)}, ratio ${(ours / peer).toFixed(3)}\n`,
  );
}
