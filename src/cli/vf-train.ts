/** The `vf-train` command. */
import { vfTrain } from './commands/vf-train.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfTrain);
