/** What all that `vf-serve` and `vf-view` serve has in common: the key of clients, the failures, and the time from the address to the end. */
import { once } from 'node:events';
import type { CommandContext } from '../command-line.ts';
import { ConfigError, describeError, stackTrace } from '../../core/errors.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import type { RolloutError } from '../../rollouts/rollout.ts';
import { loadEnvironmentFile, settingRemedy } from '../../sessions/environment/environment-file.ts';

/** Writes each failure of a server as one line with its causes; with -v also where each was thrown. */
export function failureNotes(context: CommandContext): (error: unknown) => void {
  return (error) => {
    context.warn(escapeControls(describeError(error)));
    const stack = context.verbose ? stackTrace(error) : null;
    if (stack !== null) context.note(escapeControls(stack, { lines: true }));
  };
}

/** Counts at which rollouts that failed in the same way are mentioned again. */
const MENTIONED = new Set([10, 100, 1_000, 10_000, 100_000]);

/** Writes the first failed rollout of each kind, and now and then their number; with -v all of them, with stack traces. */
export function failedRolloutNotes(context: CommandContext): (rolloutId: string, error: RolloutError) => void {
  const counts = new Map<string, number>();
  return (rolloutId, { type, phase, chain, stack }) => {
    const kind = `${type} (${phase})`;
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    if (count === 1 || context.verbose) context.note(`vf-serve: the rollout ${escapeControls(rolloutId)} failed: ${escapeControls(chain)}`);
    else if (MENTIONED.has(count)) context.note(`vf-serve: ${count} rollouts have failed with ${kind}; -v shows each`);
    if (context.verbose && stack !== undefined) context.note(escapeControls(stack, { lines: true }));
  };
}

/** A signal that also aborts when stdin closes: when the process at its other end closes it or dies, even by SIGKILL. */
export function endWithStdin(signal: AbortSignal): AbortSignal {
  const ended = new AbortController();
  for (const event of ['end', 'close', 'error']) process.stdin.once(event, () => ended.abort(new Error('stdin was closed')));
  process.stdin.resume();
  return AbortSignal.any([signal, ended.signal]);
}

/** The key that clients must send, from the variable that --api-key-var names; null if none is required. */
export function readKey(variable: string | undefined, context: CommandContext): string | null {
  if (variable === undefined) return null;
  loadEnvironmentFile('.env', process.env);
  const key = process.env[variable];
  if (key === undefined || key === '')
    throw new ConfigError(
      `The environment variable ${variable} (--api-key-var) holds no API key; ${settingRemedy(variable)}, or leave --api-key-var out`,
    );
  context.secrets.add(key);
  return key;
}

interface Serving {
  /** Printed on stdout, once the server answers. */
  readonly address: string;
  /** What is served. */
  readonly about: string;
  /** What Ctrl-C begins, such as `ending episodes`. */
  readonly ending: string;
  /** Ends the service. @default the signal of the command */
  readonly stopped?: AbortSignal;
}

/** Prints the address and what is served, and waits until the process is asked to stop. */
export async function serveUntilStopped({ address, about, ending, stopped }: Serving, context: CommandContext): Promise<null> {
  const signal = stopped ?? context.signal;
  // Set before the address is printed, because a script that reads it may stop the server at once.
  context.onInterrupt = () => context.note(`vf-serve: ${ending}; press Ctrl-C again to stop at once`);
  process.stdout.write(`${address}\n`);
  context.note(`vf-serve: ${escapeControls(about)}; Ctrl-C stops`);
  if (!signal.aborted) await once(signal, 'abort');
  return null;
}
