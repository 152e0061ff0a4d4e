import { OpenPipeline } from '../../pipelines/open-pipeline.ts';
import type { CommandContext } from '../command-line.ts';
import { openServices } from './open-services.ts';
import type { PipelineFlags } from './pipeline-flags.ts';

export function openNamedPipeline(path: string, { set, tools }: PipelineFlags, context: CommandContext): Promise<OpenPipeline> {
  return OpenPipeline.open({
    path,
    ...(set && { set }),
    ...(tools && { tools }),
    openers: openServices(context),
    importModule: async (file) => {
      const { importEnvironment } = await import('../../registry/import-environment.ts');
      return importEnvironment(file, { isOwn: false });
    },
    signal: context.signal,
  });
}
