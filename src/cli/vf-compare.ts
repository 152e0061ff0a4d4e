/** The `vf-compare` command. */
import { vfCompare } from './commands/vf-compare.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfCompare);
