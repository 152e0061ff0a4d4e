import { toolSteps } from '../../pipelines/pipeline.ts';
import type { CommandContext } from '../command-line.ts';
import { plural } from '../../reports/text/number-text.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { findPipeline } from '../../registry/find-pipeline.ts';
import { noteBundled, noteUnopened, openNamedPipeline } from './open-named-pipeline.ts';
import type { PipelineCheckOptions } from '../commands/vf-pipeline.ts';

/** `vf-pipeline check`: everything that `run` checks before its first call; servers that the file names are opened only if asked. */
export async function checkPipeline(named: string, flags: PipelineCheckOptions, context: CommandContext): Promise<void> {
  const { path, isBundled } = findPipeline(named);
  if (isBundled) noteBundled(named, 'checking', context);
  await using pipeline = await openNamedPipeline(path, { startServers: false, ...flags }, context);
  for (const warning of await pipeline.check(context.signal)) context.note(`vf-pipeline: ${escapeControls(warning)}`);
  const calls = toolSteps(pipeline.plan.steps).length;
  noteUnopened(pipeline, context);
  const outcome = pipeline.unopened.length === 0 ? 'can run' : 'has no fault in what was checked';
  context.note(`vf-pipeline: ${named} ${outcome}: ${plural(calls, 'tool step')}, the tools of UltraRAG ${pipeline.tools}; no tool was called`);
}
