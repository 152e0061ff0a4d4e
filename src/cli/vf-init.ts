/** The `vf-init` command. */
import { vfInit } from './commands/vf-init.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfInit);
