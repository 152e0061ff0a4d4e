import { toolSteps } from '../../pipelines/pipeline.ts';
import type { CommandContext } from '../command-line.ts';
import { plural } from '../../reports/text/number-text.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { findPipeline } from '../../registry/find-pipeline.ts';
import { noteBundled, openNamedPipeline } from './open-named-pipeline.ts';
import type { PipelineOptions } from '../commands/vf-pipeline.ts';

/** `vf-pipeline check`: everything that `run` checks before its first call. */
export async function checkPipeline(named: string, flags: PipelineOptions, context: CommandContext): Promise<void> {
  const { path, isBundled } = findPipeline(named);
  if (isBundled) noteBundled(named, 'checking', context);
  await using pipeline = await openNamedPipeline(path, flags, context);
  for (const warning of await pipeline.check(context.signal)) context.note(`vf-pipeline: ${escapeControls(warning)}`);
  const calls = toolSteps(pipeline.plan.steps).length;
  context.note(`vf-pipeline: ${named} can run: ${plural(calls, 'tool step')}, the tools of UltraRAG ${pipeline.tools}; no server was asked`);
}
