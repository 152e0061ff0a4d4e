/** The `vf-view` command. */
import { vfView } from './commands/vf-view.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfView);
