/** Runs `vf-train` once for a proof, as a user would, and reads its records. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { MetricsRow } from '../../src/trainer/training-observer.ts';
import { readMetrics } from '../../src/trainer/records/metrics-journal.ts';
import { type ProcessFigures, watchProcess } from './watch-process.ts';

export const ROOT = join(import.meta.dirname, '../..');

export interface ProvenRun extends ProcessFigures {
  readonly label: string;
  readonly isControl: boolean;
  /** Seconds from the start of the command to its end. */
  readonly seconds: number;
  readonly directory: string;
  /** The last adapter, a PEFT directory; null if the run made none. */
  readonly adapter: string | null;
  readonly rows: readonly MetricsRow[];
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

/** Runs the compiled command, as it is installed for users, with a PATH that leads only to Node. Throws if it fails. */
export function trainAlone(options: Pick<RunOptions, 'label' | 'isControl' | 'args'>): Promise<ProvenRun> {
  const path = mkdtempSync(join(tmpdir(), 'vf-node-alone-'));
  symlinkSync(process.execPath, join(path, 'node'));
  return trainOnce({ ...options, nodeFlags: [], env: { PATH: path, HOME: process.env['HOME'] } });
}

/** `--set key=value` for each setting. */
export function setFlags(settings: readonly string[]): string[] {
  return settings.flatMap((setting) => ['--set', setting]);
}

/** vf-train settings for another world with the same names: a directory written by recipes/base/world.py. */
export function worldSettings(world: string | undefined): string[] {
  if (world === undefined) return [];
  const file = (name: string) => resolve(world, `${name}.jsonl`);
  return [`args.dataset=${file('train')}`, `args.corpus=${file('corpus')}`, `eval_args.dataset=${file('heldout')}`].map(
    (setting) => `environment.${setting}`,
  );
}
