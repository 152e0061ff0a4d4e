import { describeError, stackTrace } from '../../core/errors.ts';
import type { CommandContext } from '../command-line.ts';
import { escapeControls } from '../terminal-text.ts';

/** Writes each failure of a server as one line with its causes; with -v also where each was thrown. */
export function failureNotes(context: CommandContext): (error: unknown) => void {
  return (error) => {
    context.note(`vf-serve: ${escapeControls(describeError(error))}`);
    const stack = context.verbose ? stackTrace(error) : null;
    if (stack !== null) context.note(escapeControls(stack, { lines: true }));
  };
}
