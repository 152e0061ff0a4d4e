/** Runs `vf-eval` as a user would, and gives the summary that it prints. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { ROOT } from './training-proof.ts';

/** The part of `vf-eval --json` that the proofs read. */
export interface WireSummary {
  readonly directory: string;
  readonly complete: boolean;
  readonly rollouts: { readonly finished: number; readonly errored: number };
  /** Null if nothing finished. */
  readonly reward: { readonly value: number } | null;
  readonly metrics: Readonly<Record<string, { readonly value: number }>>;
  readonly truncated: { readonly value: number } | null;
  readonly tokens: { readonly output: number };
  readonly wall_seconds: number;
}

/** `--plain --json` is added. Throws if the command fails. */
export async function runEvaluation(args: readonly string[]): Promise<WireSummary> {
  const child = spawn(process.execPath, ['--conditions=source', 'bin/vf-eval.js', ...args, '--plain', '--json'], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let json = '';
  child.stdout.on('data', (chunk: Buffer) => (json += chunk.toString('utf8')));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`vf-eval ${args.join(' ')} failed with exit code ${code}.`);
  return JSON.parse(json) as WireSummary;
}
