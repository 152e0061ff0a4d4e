/** The `vf-eval` command. */
import { vfEval } from './commands/vf-eval.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfEval);
