import { join } from 'node:path';
import { packageRoot } from '../../data/package-root.ts';
import { buildParameters } from '../../pipelines/build-parameters.ts';
import { findPipeline } from '../../registry/find-pipeline.ts';
import { ownCommand } from '../../reports/text/own-command.ts';
import type { CommandContext } from '../command-line.ts';
import type { PipelineCheckOptions } from '../commands/vf-pipeline.ts';
import { noteUnopened, openNamedPipeline } from './open-named-pipeline.ts';

/** `vf-pipeline build`: writes the parameters that the steps of a pipeline use. */
export async function buildPipeline(named: string, flags: PipelineCheckOptions, context: CommandContext): Promise<void> {
  const { path, isBundled } = findPipeline(named);
  await using pipeline = await openNamedPipeline(path, { startServers: false, ...flags }, context);
  noteUnopened(pipeline, context);
  const { target, isWritten, copied, unset } = await buildParameters(pipeline, { named, isBundled, examples: join(packageRoot(), 'examples') });
  if (isBundled) context.note(`vf-pipeline: copied ${named} and the files that it names from the package`);
  else if (copied.length > 0) context.note(`vf-pipeline: copied ${copied.join(', ')} from the package: ${named} names it, and it was not here`);
  const outcome = isWritten ? `wrote ${target}` : `${target} has everything that ${named} needs`;
  context.note(`vf-pipeline: ${outcome}; edit it, then run ${ownCommand('vf-pipeline', ['run', named])}`);
  for (const [server, key] of unset) context.note(`vf-pipeline: ${server}.${key} has no default; set it in ${target}`);
}
