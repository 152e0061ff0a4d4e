/** The `vf-index` command. */
import { vfIndex } from './commands/vf-index.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfIndex);
