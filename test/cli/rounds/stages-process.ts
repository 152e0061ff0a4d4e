/** Runs stages of `vf-rounds` one after another in this process: `stages-process.ts '<list of command lines as JSON>'`. */
import { vfRounds } from '../../../src/cli/commands/vf-rounds.ts';
import { runWords } from '../../../src/cli/options/run-defined.ts';
import { quietContext } from './quiet-context.ts';

const context = quietContext();
for (const words of JSON.parse(process.argv[2]!) as string[][]) await runWords(vfRounds, words, context);
