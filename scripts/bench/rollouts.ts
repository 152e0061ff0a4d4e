/**
 * CPU per episode of the rollout engine and of verifiers 0.1.14's, on the same two-turn task with an instant in-process policy. Ours keeps
 * every token in its buffer; both score. `node --conditions=vf-search-source scripts/bench/rollouts.ts [--runs 5] [--json]`.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measurement, type Pair, report } from './measurement.ts';
import { verifiersVenv } from './peer-venv.ts';
import { playEpisodes } from './play-episodes.ts';
import { benchQuestions, TwoTurnEnv, writeQuestions } from './two-turn-task.ts';

const EPISODES = 2000;
const CONCURRENCY = 32;
const TURNS = ['<think>I need to look this up.</think>\n<search>who is it</search>', '<think>Found.</think>\n<answer>Beijing</answer>'];

/** CPU milliseconds per episode. */
async function ours(environment: TwoTurnEnv): Promise<number> {
  const before = process.cpuUsage();
  let rewarded = 0;
  await playEpisodes({ environment, turns: TURNS, concurrency: CONCURRENCY, onRollout: ({ reward }) => (rewarded += reward!) });
  const { user, system } = process.cpuUsage(before);
  if (rewarded === 0) throw new Error('No answer was right, although some questions have the answer Beijing.');
  return (user + system) / 1e3 / environment.eval.length;
}

/** The peer's CPU milliseconds per episode, in its own process after a warm-up. */
function theirs(questions: string): number {
  const script = join(import.meta.dirname, 'peers/verifiers/inprocess.py');
  const { stdout, status } = spawnSync(join(verifiersVenv(), 'python'), [script, String(EPISODES), String(CONCURRENCY), '1'], {
    encoding: 'utf8',
    env: { ...process.env, QUESTIONS: questions },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`The peer failed with exit status ${status}.`);
  return (JSON.parse(stdout.trim().split('\n').at(-1)!) as { cpu_ms_per_episode: number }).cpu_ms_per_episode;
}

const { values } = parseArgs({ options: { runs: { type: 'string', default: '5' }, json: { type: 'boolean' } } });
const directory = mkdtempSync(join(tmpdir(), 'vf-bench-'));
try {
  const questions = benchQuestions(EPISODES);
  const path = writeQuestions(questions, directory);
  const environment = new TwoTurnEnv(questions);
  await ours(environment);
  const pairs: Pair[] = [];
  for (let run = 0; run < Number(values.runs); run++) pairs.push({ peer: theirs(path), ours: await ours(environment) });
  report([measurement({ what: 'rollout engine, CPU per episode', unit: 'ms', against: 'verifiers 0.1.14', bar: 1 / 3 }, pairs)]);
} finally {
  rmSync(directory, { recursive: true });
}
