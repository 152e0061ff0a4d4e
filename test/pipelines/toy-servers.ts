/** Servers for tests of the engine. */
import { NO_JOURNAL } from '../../src/pipelines/call-journal.ts';
import { parseYaml } from '../../src/pipelines/parse-yaml.ts';
import { parsePipeline } from '../../src/pipelines/pipeline.ts';
import { planPipeline } from '../../src/pipelines/pipeline-plan.ts';
import type { PipelineServer, PipelineTool, Values } from '../../src/pipelines/pipeline-server.ts';
import { type FinishedCall, type PipelineResult, runPipeline, type RunOptions } from '../../src/pipelines/run-pipeline.ts';

export type Texts = readonly string[];

export function tool(io: string, run: (args: Values, ...rest: never[]) => Values | Promise<Values>, more: Partial<PipelineTool> = {}): PipelineTool {
  return { io, ...more, run: async (args, context) => (run as PipelineTool['run'])(args, context) };
}

export function planText(yaml: string, servers: Readonly<Record<string, PipelineServer>>) {
  return planPipeline(parsePipeline(parseYaml(yaml, 'the file'), 'the file'), {
    servers: new Map(Object.entries(servers)),
    named: new Map(),
    where: 'the file',
  });
}

export async function runText(
  yaml: string,
  servers: Readonly<Record<string, PipelineServer>>,
  options: Partial<RunOptions> = {},
): Promise<PipelineResult & { readonly log: readonly FinishedCall[] }> {
  const log: FinishedCall[] = [];
  const result = await runPipeline(planText(yaml, servers), {
    parameters: new Map(),
    journal: NO_JOURNAL,
    resolve: (path) => path,
    signal: new AbortController().signal,
    onCall: (call) => log.push(call),
    ...options,
  });
  return { ...result, log };
}
