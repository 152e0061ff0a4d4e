/** A server that the user brings: a module that exports `tools`, and `parameters` if it has any. */
import { existsSync } from 'node:fs';
import { thrownText, VfError } from '../core/errors.ts';
import type { KeySchema } from '../schemas/config-keys.ts';
import { isObject } from '../schemas/is-object.ts';
import { jsonProblem } from './json-problem.ts';
import { PipelineError, PipelineFileError } from './pipeline-error.ts';
import type { PipelineServer, PipelineTool, Values } from './pipeline-server.ts';

export type ImportModule = (path: string) => Promise<Readonly<Record<string, unknown>>>;

/** The module's path. Throws PipelineFileError if there is no such file. */
export function moduleFile(name: string, path: string): string {
  if (existsSync(path)) return path;
  throw wrong(`The server ${name} is ${path}, but ${path} does not exist. Write its path from this folder or the pipeline's.`);
}

/** `name` is the server's name, `path` its file. Rejects with PipelineFileError. */
export async function openModuleServer(name: string, path: string, importModule: ImportModule): Promise<PipelineServer> {
  let module: Readonly<Record<string, unknown>>;
  try {
    module = await importModule(path);
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw wrong(`The server ${name} cannot be imported from ${path}: ${thrownText(cause)}`, cause);
  }
  const { tools, parameters = {}, asksPolicy, close } = module;
  if (!isObject(tools) || Object.keys(tools).length === 0) {
    throw wrong(
      `${path} (the server ${name}) must export tools: export const tools = { shout: { io: 'ans_ls->ans_ls', run: ({ ans_ls }) => ({ ans_ls }) } }`,
    );
  }
  if (!isObject(parameters) || !Object.values(parameters).every(isObject))
    throw wrong(`${path} (the server ${name}) must export parameters as a table of JSON Schemas`);
  return {
    parameters: parameters as Record<string, KeySchema>,
    tools: Object.fromEntries(Object.entries(tools).map(([tool, value]) => [tool, ownTool(`${name}.${tool}`, path, value)])),
    ...(asksPolicy === true && { model: () => 'policy' as const }),
    ...(typeof close === 'function' && { close: async () => void (await (close as () => unknown)()) }),
  };
}

function ownTool(name: string, path: string, value: unknown): PipelineTool {
  if (!isObject(value) || typeof value['io'] !== 'string' || typeof value['run'] !== 'function') {
    throw wrong(`${name} (${path}) must have io, such as 'ans_ls->ans_ls', and run, a function`);
  }
  const { run, ...tool } = value as unknown as PipelineTool;
  return {
    ...tool,
    // A copy, because a tool's changes to its arguments must not change the variables. Awaited, because it need not be async.
    run: async (args, context) => {
      const record = (position: number, part: unknown) => {
        assertJson(name, part, `record(${position})`);
        context.record(position, part);
      };
      const reply = await (run as (args: Values, context: unknown) => unknown)(structuredClone(args), { ...context, record });
      assertJson(name, reply, '');
      return reply as Values;
    },
  };
}

/** A value that JSON cannot hold would come back changed when a run is resumed. */
function assertJson(name: string, value: unknown, place: string): void {
  const problem = jsonProblem(value, place);
  if (problem === null) return;
  throw new PipelineError(`${name} gave ${problem}. JSON cannot hold it; give text, numbers, true, false, null, lists or objects.`, {
    failure: 'output',
  });
}

function wrong(message: string, cause?: unknown): PipelineFileError {
  return new PipelineFileError(message, { fault: 'server', cause });
}
