/**
 * A server that the user brings, over the Model Context Protocol: started with the run over stdio and killed with it, or reached over HTTP. Its tools take variables
 * and parameters by the names of their arguments; their outputs are the keys of the JSON that they return.
 */
import { VfError } from '../core/errors.ts';
import { jsonExcess } from '../core/json-bounds.ts';
import { readExactJson } from '../core/read-json.ts';
import { McpConnection, type McpSource, oneLine } from '../mcp/mcp-connection.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { kindOf } from '../schemas/kind-of.ts';
import { PipelineError, PipelineFileError } from './pipeline-error.ts';
import type { CallContext, PipelineServer, PipelineTool, StepNames, Values } from './pipeline-server.ts';

export interface McpOptions {
  /** The folder in which a command runs. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** Deadline for starting and connecting, in milliseconds. @default 60000 */
  readonly connectTimeoutMs?: number;
  /** Deadline of a call, in milliseconds. @default 600000 */
  readonly callTimeoutMs?: number;
}

const CONNECT_TIMEOUT_MS = 60_000;
const CALL_TIMEOUT_MS = 600_000;

/** Rejects with PipelineFileError if the package is missing, or the server cannot be started, reached or understood. */
export async function openMcpServer(name: string, source: McpSource, options: McpOptions): Promise<PipelineServer> {
  const { cwd, signal, connectTimeoutMs = CONNECT_TIMEOUT_MS, callTimeoutMs = CALL_TIMEOUT_MS } = options;
  const makeError = (message: string, cause: unknown) => new PipelineFileError(message, { fault: 'server', cause });
  const connection = await McpConnection.open(name, source, { cwd, signal, timeoutMs: connectTimeoutMs, makeError });
  try {
    const request = { timeout: connectTimeoutMs, signal };
    const { client } = connection;
    const tools = await connection.tools(request);
    const prompts = client.getServerCapabilities()?.prompts === undefined ? [] : (await client.listPrompts({}, request)).prompts;
    const call = { connection, timeoutMs: callTimeoutMs };
    return {
      parameters: 'any',
      tools: {
        ...Object.fromEntries(prompts.map((prompt) => [prompt.name, promptTool(`${name}.${prompt.name}`, prompt.arguments ?? [], call)])),
        ...Object.fromEntries(tools.map((tool) => [tool.name, mcpTool(`${name}.${tool.name}`, tool, call)])),
      },
      close: () => connection.close(),
    };
  } catch (cause) {
    await connection.close();
    if (signal.aborted) throw signal.reason;
    throw makeError(`The MCP server ${name} (${connection.where}) cannot be used: ${connection.quote(cause)}`, connection.cleaned(cause));
  }
}

interface McpCalls {
  readonly connection: McpConnection;
  readonly timeoutMs: number;
}

interface McpSchema {
  readonly properties?: Readonly<Record<string, unknown>> | undefined;
  readonly required?: readonly string[] | undefined;
}

function mcpTool(
  name: string,
  tool: {
    readonly name: string;
    readonly description?: string | undefined;
    readonly inputSchema: McpSchema;
    readonly outputSchema?: McpSchema | undefined;
  },
  calls: McpCalls,
): PipelineTool {
  const { properties = {}, required = [] } = tool.inputSchema;
  const outputs = Object.keys(tool.outputSchema?.properties ?? {});
  return {
    io: (step) => ioOf(Object.keys(properties), required, outputs, step),
    ...(tool.description !== undefined && { description: tool.description }),
    run: (args, context) =>
      answered(
        name,
        calls,
        async (request) => {
          const result = await calls.connection.client.callTool({ name: tool.name, arguments: args }, undefined, request);
          const text = textOf(result.content);
          const shown = calls.connection.hide(text);
          if (result.isError === true) throw new PipelineError(`${name} failed: ${oneLine(shown) || 'no reason given'}`, { failure: 'failed' });
          return isObject(result.structuredContent) ? result.structuredContent : parsedReply(name, text, shown);
        },
        context,
      ),
  };
}

/** UltraRAG's prompt servers: arguments as JSON text, and one variable with a prompt for each message. */
function promptTool(
  name: string,
  args: readonly { readonly name: string; readonly required?: boolean | undefined }[],
  calls: McpCalls,
): PipelineTool {
  const required = args.filter((arg) => arg.required === true).map((arg) => arg.name);
  const names = args.map((arg) => arg.name);
  return {
    io: (step) => ioOf(names, required, ['prompt_ls'], step),
    run: (given, context) =>
      answered(
        name,
        calls,
        async (request) => {
          const values = Object.entries(given).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]);
          const { messages } = await calls.connection.client.getPrompt(
            { name: name.slice(name.indexOf('.') + 1), arguments: Object.fromEntries(values) as Record<string, string> },
            request,
          );
          return { prompt_ls: messages.map(({ content }) => textOf([content])) };
        },
        context,
      ),
  };
}

/** Arguments that the tool requires, that the step names, or that are known; outputs that the tool declares or the step names. */
function ioOf(
  known: readonly string[],
  required: readonly string[],
  outputs: readonly string[],
  { inputs, outputs: named, isKnown }: StepNames,
): string {
  const taken = known.filter((argument) => required.includes(argument) || inputs.includes(argument) || isKnown(argument));
  return `${taken.join(',')}->${[...new Set([...outputs, ...named])].join(',')}`;
}

async function answered(
  name: string,
  { timeoutMs, connection }: McpCalls,
  ask: (request: { timeout: number; signal: AbortSignal }) => Promise<Values>,
  { signal }: CallContext,
): Promise<Values> {
  try {
    return await ask({ timeout: timeoutMs, signal });
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    if (signal.aborted) throw signal.reason;
    throw new PipelineError(`${name} failed: ${connection.quote(cause)}`, { failure: 'failed', cause: connection.cleaned(cause) });
  }
}

/** @param shown the text as a message may repeat it */
function parsedReply(name: string, text: string, shown: string): Values {
  const excess = jsonExcess(text);
  if (excess !== null) throw new PipelineError(`${name} returned JSON that ${excess}`, { failure: 'output' });
  let value: unknown;
  try {
    value = readExactJson(text === '' ? '{}' : text);
  } catch (cause) {
    throw new PipelineError(`${name} must return a JSON object with its outputs, got ${JSON.stringify(shown.slice(0, 100))}`, {
      failure: 'output',
      cause,
    });
  }
  if (isObject(value)) return value;
  throw new PipelineError(`${name} must return a JSON object with its outputs, got ${kindOf(value)}`, { failure: 'output' });
}

function textOf(content: unknown): string {
  const [first] = Array.isArray(content) ? (content as unknown[]) : [];
  const { text } = fieldsOf(first);
  return typeof text === 'string' ? text : '';
}
