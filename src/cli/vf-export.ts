/** The `vf-export` command. */
import { vfExport } from './commands/vf-export.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfExport);
