/** The `vf-score` command. */
import { vfScore } from './commands/vf-score.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfScore);
