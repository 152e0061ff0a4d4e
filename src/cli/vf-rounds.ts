/** The `vf-rounds` command. */
import { vfRounds } from './commands/vf-rounds.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfRounds);
