/** Runs stages of `vf-rounds` one after another in this process: `stages-process.ts '<list of command lines as JSON>'`. */
import { Command } from 'commander';
import { addCurateCommands } from '../../../src/cli/rounds/curate-commands.ts';
import { addDistillCommands } from '../../../src/cli/rounds/distill-commands.ts';
import type { RoundAction } from '../../../src/cli/rounds/stage-command.ts';
import { quietContext } from './quiet-context.ts';

const context = quietContext();
for (const words of JSON.parse(process.argv[2]!) as string[][]) {
  const actions: RoundAction[] = [];
  const program = new Command();
  for (const add of [addCurateCommands, addDistillCommands]) add(program, (action) => void actions.push(action));
  program.parse(words, { from: 'user' });
  for (const action of actions) await action(context);
}
