/** The `vf-serve` command. */
import { vfServe } from './commands/vf-serve.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfServe);
