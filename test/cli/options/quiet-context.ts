import type { CommandContext } from '../../../src/cli/command-line.ts';

/** The context of a command in this process, which keeps what it would print. */
export function quietContext(): CommandContext & { readonly notes: string[] } {
  const notes: string[] = [];
  return {
    notes,
    signal: new AbortController().signal,
    secrets: new Set(),
    verbose: false,
    report: (error) => void notes.push(String(error)),
    redact: (text) => text,
    note: (line) => void notes.push(line),
    variables: {},
    warn: (line) => void notes.push(line),
    onInterrupt: null,
  };
}
