/** The `vf-seed` command. */
import { vfSeed } from './commands/vf-seed.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfSeed);
