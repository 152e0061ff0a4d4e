/** The `vf-rounds` command: turns the trace of a run into the next round's data, into demonstrations, and drives rounds to their end. */
import { Command } from 'commander';
import { packageVersion } from '../data/package-root.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';
import { addCurateCommands } from './rounds/curate-commands.ts';
import { addDistillCommands } from './rounds/distill-commands.ts';
import { addReportCommand } from './rounds/report-command.ts';
import { addRunCommand } from './rounds/run/run-command.ts';
import type { RoundAction } from './rounds/stage-command.ts';

const HELP = `
For example, after vf-train visual-rag:
  T=outputs/train/visual-rag--1a2b3c4d/trace.jsonl
  vf-rounds bucket --trace $T --rows train.jsonl -o round-1
  vf-rounds extract --trace $T -o round-1/candidates.jsonl
  vf-rounds finalize round-1/candidates.jsonl -o round-1/sft.jsonl
  vf-train visual-rag --preset laptop --sft round-1/sft.jsonl
  vf-rounds report round-1

The same input always gives the same bytes. Beside its output a stage writes a
manifest with its rule, its counts and the SHA-256 of every file that it read
and wrote. It replaces only files that the same stage wrote. --trace also takes
DDAI's unified_trajectory.jsonl.
docs/rounds.md has a worked example.

vf-rounds <command> --help shows the options of a command.`;

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-rounds')
    .description("Turns the trace of a run into the next round's data.")
    .version(packageVersion(), '-V, --version')
    .configureHelp({ showGlobalOptions: false })
    .helpCommand(false)
    .addHelpText('after', HELP);
  const actions: (() => Promise<number>)[] = [];
  const act = (action: RoundAction) => void actions.push(() => action(context));
  addCurateCommands(program, act);
  addDistillCommands(program, act);
  addReportCommand(program, act);
  addRunCommand(program, act);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  return actions[0]?.() ?? EXIT.usage;
}

await runCommand('vf-rounds', main);
