/** Shared by the proofs of learning: runs `vf-train` as a user would, judges the results, and writes a page about them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { compareRuns } from '../../src/reports/plot/training-plots.ts';
import type { MetricsRow } from '../../src/trainer/records/metrics.ts';
import { readMetrics } from '../../src/trainer/records/metrics-journal.ts';
import { type ProcessFigures, watchProcess } from './watch-process.ts';

export const ROOT = join(import.meta.dirname, '../..');

export interface ProvenRun extends ProcessFigures {
  readonly label: string;
  readonly isControl: boolean;
  /** From the start of the command to its end. */
  readonly seconds: number;
  readonly directory: string;
  /** The last adapter, a PEFT directory; null if the run made none. */
  readonly adapter: string | null;
  readonly rows: readonly MetricsRow[];
}

export interface Verdict {
  readonly ok: boolean;
  readonly text: string;
}

export interface RunOptions {
  readonly label: string;
  readonly isControl?: boolean;
  /** Arguments of vf-train; `--plain --json` is added. */
  readonly args: readonly string[];
  /** @default ['--conditions=vf-search-source'] */
  readonly nodeFlags?: readonly string[];
  /** @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Runs the command once. Throws if it fails. */
export async function trainOnce({
  label,
  isControl = false,
  args,
  nodeFlags = ['--conditions=vf-search-source'],
  env = process.env,
}: RunOptions): Promise<ProvenRun> {
  process.stdout.write(`\n${label}\n`);
  const startedAtMs = performance.now();
  const child = spawn(process.execPath, [...nodeFlags, 'bin/vf-train.js', ...args, '--plain', '--json'], {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let json = '';
  child.stdout.on('data', (chunk: Buffer) => (json += chunk.toString('utf8')));
  const watch = watchProcess(child.pid!);
  const [code] = (await once(child, 'close')) as [number | null];
  const figures = watch.stop();
  if (code !== 0) throw new Error(`vf-train failed with exit code ${code}.`);
  const seconds = (performance.now() - startedAtMs) / 1000;
  const { directory, adapter } = JSON.parse(json) as { directory: string; adapter: string | null };
  const rows = await readMetrics(join(directory, 'metrics.jsonl'));
  return { label, isControl, seconds, ...figures, directory, adapter, rows };
}

/** vf-train settings for another world with the same names: a directory written by scripts/nano/world.py. */
export function worldSettings(world: string | undefined): string[] {
  if (world === undefined) return [];
  const file = (name: string) => resolve(world, `${name}.jsonl`);
  return [`args.dataset=${file('train')}`, `args.corpus=${file('corpus')}`, `eval_args.dataset=${file('heldout')}`].map(
    (setting) => `environment.${setting}`,
  );
}

export interface HeldOut {
  readonly step: number;
  readonly reward: number;
}

export function heldOut(rows: readonly MetricsRow[]): HeldOut[] {
  return rows.flatMap(({ kind, step, values }) => (kind === 'evaluation' ? [{ step, reward: values['reward_mean'] ?? NaN }] : []));
}

export function worst(rows: readonly MetricsRow[], name: string): number {
  return Math.max(...rows.flatMap(({ kind, values }) => (kind === 'step' ? (values[name] ?? []) : [])));
}

/** Median over the steps of a time's share of the step. */
export function share(rows: readonly MetricsRow[], name: string): number {
  const shares = rows.flatMap(({ kind, values }) => (kind === 'step' ? [(values[name] ?? NaN) / (values['step_seconds'] ?? NaN)] : []));
  return shares.toSorted((a, b) => a - b)[Math.floor(shares.length / 2)]!;
}

/** The held-out reward must start at or below one bar and reach the other; a control's must fall. */
export function judgeReward({ label, isControl, rows }: ProvenRun, bars: { readonly start: number; readonly end: number }): Verdict {
  const held = heldOut(rows);
  const [first, last] = [held[0]!, held.at(-1)!];
  const moved = `${label}: held-out reward ${first.reward.toFixed(3)} → ${last.reward.toFixed(3)} in ${last.step} steps`;
  if (isControl) return { ok: last.reward < first.reward, text: `${moved}; must not rise` };
  return { ok: first.reward <= bars.start && last.reward >= bars.end, text: `${moved}; from at most ${bars.start} to at least ${bars.end}` };
}

export interface ProofPage {
  /** Directory for the page. */
  readonly output: string;
  /** Base name of the files: NAME.md, NAME.json, NAME.svg. */
  readonly name: string;
  readonly title: string;
  /** Heading of the plot. */
  readonly heading: string;
  /** Paragraph below the title; it may use `command` and `machine`. */
  readonly intro: (about: { readonly command: string; readonly machine: string }) => readonly string[];
  /** The npm script. */
  readonly script: string;
  readonly runs: readonly ProvenRun[];
  readonly verdicts: readonly Verdict[];
  readonly goals: readonly { readonly value: number; readonly label: string }[];
}

/** Writes the page with plot and figures, prints the verdicts and sets the exit code. */
export function reportProof(page: ProofPage): void {
  const { output, name, heading, runs, verdicts, goals, script } = page;
  mkdirSync(output, { recursive: true });
  const svg = compareRuns(
    runs.map(({ label, rows, isControl }) => ({ label, rows, control: isControl })),
    { heading, goals },
  );
  writeFileSync(join(output, `${name}.svg`), svg);
  const { command, machine } = provenance(script);
  const record = { command, machine, node: process.versions.node, runs: runs.map(runRecord), verdicts };
  writeFileSync(join(output, `${name}.json`), `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(join(output, `${name}.md`), markdown(page, page.intro({ command, machine })));
  announceVerdicts(verdicts);
}

/** The command and the machine that a page names. `script`: the npm script. */
export function provenance(script: string): { readonly command: string; readonly machine: string } {
  const flags = process.argv.slice(2);
  const command = `npm run ${script}${flags.length === 0 ? '' : ` -- ${flags.join(' ')}`}`;
  return { command, machine: `${cpus().length} × ${cpus()[0]?.model.trim()}` };
}

/** Prints the verdicts and sets the exit code. */
export function announceVerdicts(verdicts: readonly Verdict[]): void {
  process.stdout.write(`\n${verdicts.map(({ ok, text }) => `${ok ? 'ok    ' : 'FAILED'}  ${text}`).join('\n')}\n`);
  process.exitCode = verdicts.every(({ ok }) => ok) ? 0 : 1;
}

export function verdictLines(verdicts: readonly Verdict[]): string[] {
  return verdicts.map(({ ok, text }) => `- ${ok ? 'ok' : '**failed**'}: ${text}`);
}

function runRecord({ label, seconds, peakMemoryBytes, rows }: ProvenRun): object {
  return {
    label,
    seconds: Number(seconds.toFixed(1)),
    peak_memory_bytes: peakMemoryBytes,
    held_out: heldOut(rows),
    batch_reward: rows.flatMap(({ kind, values }) => (kind === 'step' ? [values['reward_mean']] : [])),
    log_prob_difference_mean: worst(rows, 'log_prob_difference_mean'),
    log_prob_difference_max: worst(rows, 'log_prob_difference_max'),
  };
}

function markdown({ title, name, runs, verdicts }: ProofPage, intro: readonly string[]): string {
  const evaluated = [...new Set(runs.flatMap(({ rows }) => heldOut(rows).map(({ step }) => step)))].toSorted((a, b) => a - b);
  const rows = runs.map(({ label, seconds, rows: own }) => {
    const at = new Map(heldOut(own).map(({ step, reward }) => [step, reward.toFixed(3)]));
    return `| ${label} | ${evaluated.map((step) => at.get(step) ?? '').join(' | ')} | ${Math.round(seconds)} |`;
  });
  return [
    `# ${title}`,
    '',
    ...intro,
    '',
    `![Held-out reward by step](${name}.svg)`,
    '',
    `| run | ${evaluated.join(' | ')} | seconds |`,
    `|---|${evaluated.map(() => '---|').join('')}---|`,
    ...rows,
    '',
    ...verdictLines(verdicts),
    '',
  ].join('\n');
}
