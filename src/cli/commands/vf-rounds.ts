/** Declares `vf-rounds`, which turns the trace of a run into the next round's data, into demonstrations, and drives rounds to their end. */
import { defineCommands } from '../options/define-command.ts';
import { bucketCommand, focusCommand, reviewCommand, verifyCommand } from '../rounds/curate-commands.ts';
import { extractCommand, finalizeCommand, rewriteCommand, vetCommand } from '../rounds/distill-commands.ts';
import { reportCommand } from '../rounds/report-command.ts';
import { runCommand } from '../rounds/run/run-command.ts';

const NOTES = `
For example, after vf-train visual-rag:
  T=outputs/train/visual-rag--1a2b3c4d/trace.jsonl
  vf-rounds bucket --trace $T --rows train.jsonl -o round-1
  vf-rounds extract --trace $T -o round-1/candidates.jsonl
  vf-rounds finalize round-1/candidates.jsonl -o round-1/sft.jsonl
  vf-train visual-rag --preset laptop --sft round-1/sft.jsonl
  vf-rounds report round-1

The same input always gives the same bytes. Next to its output a stage writes
a manifest with its rule, its counts and the SHA-256 of every file that it read
and wrote. It replaces only files that the same stage wrote. --trace also takes
DDAI's unified_trajectory.jsonl.
docs/rounds.md has a worked example.`;

export const vfRounds = defineCommands({
  name: 'vf-rounds',
  summary: "Turns the trace of a run into the next round's data.",
  commands: [
    bucketCommand,
    reviewCommand,
    focusCommand,
    verifyCommand,
    extractCommand,
    vetCommand,
    rewriteCommand,
    finalizeCommand,
    reportCommand,
    runCommand,
  ],
  notes: NOTES,
});
