import type { OpenPipeline } from '../../pipelines/open-pipeline.ts';
import { openPipeline } from '../../registry/open-pipeline.ts';
import type { CommandContext } from '../command-line.ts';
import { loadEnvironmentFile } from '../environment-file.ts';
import type { PipelineFlags } from './pipeline-flags.ts';

export function openNamedPipeline(path: string, { set, tools }: PipelineFlags, context: CommandContext): Promise<OpenPipeline> {
  loadEnvironmentFile('.env', process.env);
  return openPipeline(path, {
    ...(set && { set }),
    ...(tools && { tools }),
    env: process.env,
    onSecret: (secret) => context.secrets.add(secret),
    signal: context.signal,
  });
}
