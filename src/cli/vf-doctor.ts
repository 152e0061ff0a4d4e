/** The `vf-doctor` command. */
import { vfDoctor } from './commands/vf-doctor.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfDoctor);
