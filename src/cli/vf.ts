/** The `vf` command. */
import { vf } from './commands/vf.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vf);
