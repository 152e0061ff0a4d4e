/** The `vf-pipeline` command. */
import { vfPipeline } from './commands/vf-pipeline.ts';
import { runDefined } from './options/run-defined.ts';

await runDefined(vfPipeline);
