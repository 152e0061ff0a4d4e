/**
 * A server that the user brings, over the Model Context Protocol: started with the run over stdio and killed with it, or reached over HTTP. Its tools take variables
 * and parameters by the names of their arguments; their outputs are the keys of the JSON that they return.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { ReadBuffer } from '@modelcontextprotocol/sdk/shared/stdio.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import { thrownText, VfError } from '../core/errors.ts';
import { JsonBounds, jsonExcess, REQUEST_LIMITS } from '../core/json-bounds.ts';
import { readExactJson } from '../core/read-json.ts';
import { systemText } from '../files/system-text.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { kindOf } from '../schemas/kind-of.ts';
import { boundedResponse } from '../transport/bounded-response.ts';
import { PipelineError, PipelineFileError } from './pipeline-error.ts';
import type { CallContext, PipelineServer, PipelineTool, StepNames, Values } from './pipeline-server.ts';
import type { ServerSource } from './server-source.ts';

export interface McpOptions {
  /** The folder in which a command runs. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** Deadline for starting and connecting, in milliseconds. @default 60000 */
  readonly connectTimeoutMs?: number;
  /** Deadline of a call, in milliseconds. @default 600000 */
  readonly callTimeoutMs?: number;
}

type McpSource = Extract<ServerSource, { kind: 'command' | 'url' }>;

const CONNECT_TIMEOUT_MS = 60_000;
const CALL_TIMEOUT_MS = 600_000;
/** The time that a server may take to end by itself once its input is closed, in milliseconds. */
const END_GRACE_MS = 1000;
/** Of a message over HTTP, as the package has it for stdio. */
const MOST_MESSAGE_BYTES = 10 * 2 ** 20;
/** Number of characters of a server's last stderr lines in a message. */
const SHOWN_STDERR = 300;

/** Rejects with PipelineFileError if the package is missing, or the server cannot be started, reached or understood. */
export async function openMcpServer(name: string, source: McpSource, options: McpOptions): Promise<PipelineServer> {
  const { signal, connectTimeoutMs = CONNECT_TIMEOUT_MS, callTimeoutMs = CALL_TIMEOUT_MS } = options;
  const { client, transport, fault, end } = await clientFor(name, source, options);
  try {
    await client.connect(transport, { timeout: connectTimeoutMs, signal });
    const { tools: hasTools, prompts: hasPrompts } = client.getServerCapabilities() ?? {};
    const request = { timeout: connectTimeoutMs, signal };
    const tools = hasTools === undefined ? [] : await toolsOf(name, client, request);
    const prompts = hasPrompts === undefined ? [] : (await client.listPrompts({}, request)).prompts;
    const call = { client, timeoutMs: callTimeoutMs, fault };
    return {
      parameters: 'any',
      tools: {
        ...Object.fromEntries(prompts.map((prompt) => [prompt.name, promptTool(`${name}.${prompt.name}`, prompt.arguments ?? [], call)])),
        ...Object.fromEntries(tools.map((tool) => [tool.name, mcpTool(`${name}.${tool.name}`, tool, call)])),
      },
      close: end,
    };
  } catch (cause) {
    await end();
    if (signal.aborted && cause instanceof VfError) throw cause;
    const what = source.kind === 'url' ? source.url : [source.command, ...source.args].join(' ');
    throw new PipelineFileError(`The MCP server ${name} (${what}) cannot be used: ${oneLine(systemText(cause))}${fault()}`, {
      fault: 'server',
      cause,
    });
  }
}

/** Most pages of a list of tools. */
const MOST_PAGES = 100;

/**
 * All pages of the list. Not by the client's own method: that would compile the schemas of the outputs, and a pattern among them could hang every answer. Replies are read
 * without them.
 */
async function toolsOf(name: string, client: Client, request: { readonly timeout: number; readonly signal: AbortSignal }): Promise<Tool[]> {
  const { ListToolsResultSchema } = await fromSdk(name, () => import('@modelcontextprotocol/sdk/types.js'));
  const tools: Tool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page++) {
    const listed = await client.request({ method: 'tools/list', params: cursor === undefined ? {} : { cursor } }, ListToolsResultSchema, request);
    tools.push(...listed.tools);
    cursor = listed.nextCursor;
    if (cursor === undefined || cursor === '') return tools;
  }
  throw new VfError(`it lists its tools on more than ${MOST_PAGES} pages`);
}

interface McpConnection {
  readonly client: Client;
  readonly transport: Transport;
  /** Closes the connection, and ends the process. */
  readonly end: () => Promise<void>;
  /** What was wrong with its last message, and the end of its output on stderr, for a message; empty if there is neither. */
  readonly fault: () => string;
}

async function clientFor(name: string, source: McpSource, { cwd }: McpOptions): Promise<McpConnection> {
  const { Client: McpClient } = await fromSdk(name, () => import('@modelcontextprotocol/sdk/client/index.js'));
  const client = new McpClient({ name: 'vf-search', version: '1' });
  let fault = '';
  /** Ends the connection, and so every request: the package would wait for the end of a stream that failed. */
  const refuse = (excess: string) => {
    fault = `; its message ${excess}`;
    void client.close().catch(() => {});
    return new Error('the connection was ended');
  };
  if (source.kind === 'url') {
    const { StreamableHTTPClientTransport } = await fromSdk(name, () => import('@modelcontextprotocol/sdk/client/streamableHttp.js'));
    const bounded = async (url: string | URL, init?: RequestInit) => boundedResponse(await fetch(url, init), MOST_MESSAGE_BYTES, refuse);
    const transport = new StreamableHTTPClientTransport(new URL(source.url), { requestInit: { headers: source.headers }, fetch: bounded });
    return { client, transport, fault: () => fault, end: () => client.close().catch(() => {}) };
  }
  const { StdioClientTransport: Stdio, getDefaultEnvironment } = await fromSdk(name, () => import('@modelcontextprotocol/sdk/client/stdio.js'));
  const { command, args, env } = source;
  const transport = new Stdio({ command, args: [...args], cwd, stderr: 'pipe', env: { ...getDefaultEnvironment(), ...env } });
  boundMessages(transport, refuse);
  let written = '';
  transport.stderr?.on('data', (chunk: Buffer) => (written = (written + chunk.toString('utf8')).slice(-SHOWN_STDERR)));
  let pid: number | null = null;
  const startProcess = transport.start.bind(transport);
  transport.start = async () => {
    await startProcess();
    // The package forgets it once it closes, which it does by itself after a failure.
    pid = transport.pid;
  };
  const end = async () => {
    const closing = client.close().catch(() => {});
    await Promise.race([closing, sleep(END_GRACE_MS, undefined, { ref: false })]);
    // The package gives up waiting when another close is under way, and when this process ends.
    if (pid !== null) await endProcess(pid);
  };
  return { client, transport, fault: () => fault + (written.trim() === '' ? '' : `; it wrote: ${oneLine(written)}`), end };
}

/** Counts what the server writes before the package parses it, whose buffer bounds bytes alone. */
function boundMessages(transport: StdioClientTransport, refuse: (excess: string) => Error): void {
  const buffer: ReadBuffer = transport['_readBuffer'];
  const append = buffer.append.bind(buffer);
  const bounds = new JsonBounds(REQUEST_LIMITS, true);
  buffer.append = (chunk) => {
    const excess = bounds.take(chunk);
    if (excess !== null) throw refuse(excess);
    append(chunk);
  };
}

/** Waits for a process to end by itself, then kills it. */
async function endProcess(pid: number): Promise<void> {
  const waitUntil = performance.now() + END_GRACE_MS;
  while (isAlive(pid)) {
    if (performance.now() > waitUntil) {
      process.kill(pid, 'SIGKILL');
      return;
    }
    await sleep(10);
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** The package is an optional peer. */
async function fromSdk<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (!/^ERR_MODULE_NOT_FOUND|^ERR_PACKAGE/.test((cause as NodeJS.ErrnoException).code ?? '')) throw cause;
    throw new PipelineFileError(
      `The server ${name} is an MCP server, which needs the package @modelcontextprotocol/sdk; run npm install @modelcontextprotocol/sdk`,
      { fault: 'server', cause },
    );
  }
}

type McpCalls = Pick<McpConnection, 'client' | 'fault'> & { readonly timeoutMs: number };

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
          const result = await calls.client.callTool({ name: tool.name, arguments: args }, undefined, request);
          const text = textOf(result.content);
          if (result.isError === true) throw new PipelineError(`${name} failed: ${oneLine(text) || 'no reason given'}`, { failure: 'failed' });
          return isObject(result.structuredContent) ? result.structuredContent : parsedReply(name, text);
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
          const { messages } = await calls.client.getPrompt(
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
  { timeoutMs, fault }: McpCalls,
  ask: (request: { timeout: number; signal: AbortSignal }) => Promise<Values>,
  { signal }: CallContext,
): Promise<Values> {
  try {
    return await ask({ timeout: timeoutMs, signal });
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    if (signal.aborted) throw signal.reason;
    throw new PipelineError(`${name} failed: ${oneLine(thrownText(cause))}${fault()}`, { failure: 'failed', cause });
  }
}

function parsedReply(name: string, text: string): Values {
  const excess = jsonExcess(text);
  if (excess !== null) throw new PipelineError(`${name} returned JSON that ${excess}`, { failure: 'output' });
  let value: unknown;
  try {
    value = readExactJson(text === '' ? '{}' : text);
  } catch (cause) {
    throw new PipelineError(`${name} must return a JSON object with its outputs, got ${JSON.stringify(text.slice(0, 100))}`, {
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

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim().slice(0, SHOWN_STDERR);
}
