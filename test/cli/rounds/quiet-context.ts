import type { CommandContext } from '../../../src/cli/command-line.ts';

/** The context of a command that prints nothing and is never stopped. */
export const quietContext = (): CommandContext => ({
  signal: new AbortController().signal,
  secrets: new Set(),
  verbose: false,
  report: () => {},
  redact: (text) => text,
  variables: process.env,
  warn: () => {},
  note: () => {},
  onInterrupt: null,
});
