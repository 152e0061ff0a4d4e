import { describeError, stackTrace } from '../../core/errors.ts';
import type { RolloutError } from '../../rollouts/rollout.ts';
import type { CommandContext } from '../command-line.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';

/** Writes each failure of a server as one line with its causes; with -v also where each was thrown. */
export function failureNotes(context: CommandContext): (error: unknown) => void {
  return (error) => {
    context.note(`vf-serve: ${escapeControls(describeError(error))}`);
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
