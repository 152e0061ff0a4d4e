/** Runs `vf-eval` as a user would, and returns the summary that it prints. */
import { runCommand } from './run-command.ts';

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
  const json = await runCommand('vf-eval', [...args, '--plain', '--json']);
  return JSON.parse(json) as WireSummary;
}
