/**
 * The tools of a server over the Model Context Protocol, for a ToolEnv and for the agent of an AgentEnv. A result that reports an error is for the policy to read; a server that
 * is gone, silent or unreadable fails the rollout, and the next call starts or reaches it again.
 */
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import { CancelledError, ConfigError, ToolError } from '../core/errors.ts';
import { firstRepeated } from '../core/first-repeated.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import type { EpisodeTools, ToolSet } from '../core/tool.ts';
import { isObject } from '../schemas/is-object.ts';
import { McpConnection, type McpSource } from './mcp-connection.ts';
import { type McpLease, McpPool, type McpReset } from './mcp-pool.ts';

/** A server, and how its tools are used: `command`, which is started, or `url`, where it runs. */
export interface McpToolsOptions {
  /** The program of the server, such as `npx`. */
  readonly command?: string;
  /** Its arguments. @default none */
  readonly args?: readonly string[];
  /** Its variables, besides HOME, LOGNAME, PATH, SHELL, TERM and USER: it gets no others of this process. @default none */
  readonly env?: Readonly<Record<string, string>>;
  /** The folder in which it runs. @default that of this process */
  readonly cwd?: string;
  /** The address of a server over streamable HTTP. */
  readonly url?: string;
  /** Sent with every request, such as `authorization`. @default none */
  readonly headers?: Readonly<Record<string, string>>;
  /** Its name in messages. @default 'mcp' */
  readonly name?: string;
  /** Put before the name of each tool, such as `wiki_`, so that several servers may have tools of one name; letters, digits, _ and -. @default '' */
  readonly prefix?: string;
  /** The tools that are offered, by the server's names. @default all */
  readonly only?: readonly string[];
  /**
   * What an episode begins with. `none`: all episodes share one client. `client`: each has a client of its own, and with `command` a process. `{ tool, args }`: a client belongs to
   * one episode at a time, which begins with a call of this tool; it is not offered to the policy. @default 'none'
   */
  readonly reset?: McpReset;
  /** Deadline for starting and connecting, in milliseconds, at most 2,147,483,647 (24.8 days). @default 60000 */
  readonly connectTimeoutMs?: number;
  /** Deadline of a call, in milliseconds, at most 2,147,483,647. After it, the call is cancelled at the server. @default 60000 */
  readonly callTimeoutMs?: number;
  /** The longest result that the policy reads, in characters; the rest is left out and said. @default 50000 */
  readonly maxChars?: number;
  /** Stops the first connection. @default never */
  readonly signal?: AbortSignal;
}

const OPTIONS: OptionKinds<McpToolsOptions> = {
  command: 'text',
  args: 'texts',
  env: 'textTable',
  cwd: 'text',
  url: 'text',
  headers: 'textTable',
  name: 'text',
  prefix: 'text',
  only: 'texts',
  reset: 'any',
  connectTimeoutMs: 'timeout',
  callTimeoutMs: 'timeout',
  maxChars: 'count',
  signal: 'signal',
};

/**
 * Connects to a server and reads its list of tools, which then stays: a later change of the list does not change what an episode is offered. A ToolEnv takes the result among its
 * tools and closes it; the agent of an AgentEnv uses `episode()`. Rejects with ConfigError for a server that cannot be used.
 * @example
 * const wiki = await mcpTools({ command: 'npx', args: ['-y', 'some-mcp-server'], env: { WIKI_KEY: key }, prefix: 'wiki_' });
 * new ToolEnv({ ..., tools: [wiki, add], calls: 'native' });
 */
export async function mcpTools(options: McpToolsOptions): Promise<McpTools> {
  checkOptions('mcpTools', options, OPTIONS);
  const { name = 'mcp', connectTimeoutMs: timeoutMs = 60_000, callTimeoutMs = 60_000, maxChars = 50_000 } = options;
  const { cwd = process.cwd(), prefix = '', reset = 'none', signal = new AbortController().signal } = options;
  if (!/^[\w-]*$/.test(prefix)) throw new ConfigError(`The prefix "${prefix}" of mcpTools must consist of letters, digits, _ and -`);
  const source = sourceOf(options);
  const tool = resetTool(reset);
  const open = (own: AbortSignal, isFirst = false) =>
    McpConnection.open(name, source, {
      cwd,
      signal: own,
      timeoutMs,
      makeError: (message, cause) => (isFirst ? new ConfigError(message, { cause }) : new ToolError(message, { cause, retryable: true })),
    });
  const first = await open(signal, true);
  try {
    const listed = await first.tools({ timeout: timeoutMs, signal });
    const offered = offeredTools(listed, { name, prefix, tool, ...(options.only !== undefined && { only: options.only }) });
    return new McpTools(new McpPool({ name, first, open, reset, timeoutMs: callTimeoutMs, maxChars }), offered);
  } catch (cause) {
    await first.close();
    if (cause instanceof ConfigError) throw cause;
    if (signal.aborted) throw new CancelledError('Stopped before the MCP server listed its tools', { cause: signal.reason });
    throw new ConfigError(`The MCP server ${name} (${first.where}) cannot be used: ${first.quote(cause)}`, { cause: first.cleaned(cause) });
  }
}

interface Listed {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

interface Offered extends ToolSpec {
  /** The server's own name. */
  readonly own: string;
}

function offeredTools(
  listed: readonly Listed[],
  { name, prefix, only, tool }: { readonly name: string; readonly prefix: string; readonly only?: readonly string[]; readonly tool: string | null },
): readonly Offered[] {
  const known = listed.map((each) => each.name);
  const missing = [...(only ?? []), ...(tool === null ? [] : [tool])].find((each) => !known.includes(each));
  if (missing !== undefined)
    throw new ConfigError(`The MCP server ${name} has no tool ${missing}; it has ${known.join(', ') || 'none'}. Correct only or reset.`);
  const offered = listed
    .filter((each) => each.name !== tool && only?.includes(each.name) !== false)
    .map(({ name: own, description = '', inputSchema }) => ({
      name: prefix + own.replaceAll(/[^\w-]/g, '_'),
      description,
      parameters: inputSchema,
      own,
    }));
  if (offered.some((each) => each.own === ''))
    throw new ConfigError(`The MCP server ${name} has a tool without a name. Name those to offer with only.`);
  const twice = firstRepeated(offered.map((each) => each.name));
  if (twice === undefined) return offered;
  const alike = offered.filter((each) => each.name === twice).map((each) => JSON.stringify(each.own));
  throw new ConfigError(`The MCP server ${name} has tools that would all be called ${twice}: ${alike.join(', ')}. Choose one of them with only.`);
}

function sourceOf({ command, args = [], env = {}, url, headers = {} }: McpToolsOptions): McpSource {
  if ((command === undefined) === (url === undefined))
    throw new ConfigError('mcpTools needs a command or a url, and not both: { command: "npx", args: […] } or { url: "https://…" }.');
  if (command !== undefined) return { kind: 'command', command, args, env };
  if (/^https?:$/.test(URL.parse(url!)?.protocol ?? '')) return { kind: 'url', url: url!, headers };
  throw new ConfigError('The url of mcpTools must begin with http:// or https://.');
}

function resetTool(reset: McpReset): string | null {
  if (reset === 'none' || reset === 'client') return null;
  if (isObject(reset) && typeof reset.tool === 'string') return reset.tool;
  throw new ConfigError("reset of mcpTools must be 'none', 'client' or { tool: NAME }.");
}

/** The tools of one server, as `mcpTools` gives them. Close them, unless they are in a ToolEnv, which does. */
export class McpTools implements ToolSet, AsyncDisposable {
  readonly tools: readonly ToolSpec[];
  readonly #pool: McpPool;
  readonly #offered: readonly Offered[];

  constructor(pool: McpPool, offered: readonly Offered[]) {
    this.#pool = pool;
    this.#offered = offered;
    this.tools = offered.map(({ name, description, parameters }) => ({ name, description, parameters }));
  }

  /** The tools for one episode; dispose them at its end. */
  episode(): McpEpisode {
    return new McpEpisode(this.#pool, this.#offered);
  }

  /** Ends the connections, and the processes that it started. Safe to call twice. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A tool as functions of the AI SDK take it. */
export interface McpAiTool {
  readonly description: string;
  readonly inputSchema: StandardJsonSchema;
  readonly execute: (input: Record<string, unknown>, options: { readonly abortSignal?: AbortSignal | undefined }) => Promise<string>;
}

/** A schema that says its JSON Schema, and leaves the check to the server. */
interface StandardJsonSchema {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => { readonly value: Record<string, unknown> };
    readonly jsonSchema: { readonly input: () => Record<string, unknown>; readonly output: () => Record<string, unknown> };
  };
}

/** The tools of one server during one episode. */
export class McpEpisode implements EpisodeTools {
  readonly #offered: readonly Offered[];
  readonly #lease: McpLease;
  #isOver = false;
  /** The first failure that an agent may have swallowed. */
  #failure: ToolError | null = null;

  constructor(pool: McpPool, offered: readonly Offered[]) {
    this.#lease = pool.lease();
    this.#offered = offered;
  }

  /**
   * The tools for an agent of the AI SDK. The SDK shows every error of a tool to the model; a failure of the server is thrown again when the episode is disposed, so that its rollout fails.
   * @example
   * await using tools = wiki.episode();
   * const { text } = await new ToolLoopAgent({ model: policy.languageModel(), tools: tools.aiTools() }).generate({ prompt, abortSignal: signal });
   */
  aiTools(): Record<string, McpAiTool> {
    const never = new AbortController().signal;
    return Object.fromEntries(
      this.#offered.map(({ name, description, parameters }) => {
        const schema = () => structuredClone(parameters) as Record<string, unknown>;
        const standard = {
          version: 1,
          vendor: 'mcp',
          validate: (value: unknown) => ({ value: value as Record<string, unknown> }),
          jsonSchema: { input: schema, output: schema },
        } as const;
        const execute: McpAiTool['execute'] = async (input, { abortSignal = never }) => {
          try {
            return await this.call(name, input, { signal: abortSignal });
          } catch (error) {
            if (error instanceof ToolError) this.#failure ??= error;
            throw error;
          }
        };
        return [name, { description, inputSchema: { '~standard': standard }, execute }];
      }),
    );
  }

  /** The text of a result. Rejects with ToolError if the server failed, and with the server's words if it reports an error. */
  async call(name: string, args: Readonly<Record<string, unknown>>, { signal }: { readonly signal: AbortSignal }): Promise<string> {
    if (this.#isOver) throw new Error(`The episode is over, so ${name} is not called`);
    const tool = this.#offered.find((each) => each.name === name);
    if (tool === undefined) throw new Error(`there is no tool "${name}"; the tools are ${this.#offered.map((each) => each.name).join(', ')}`);
    const { isError, text } = await this.#lease.call(tool.own, args, signal);
    if (isError) throw new Error(text === '' ? `The tool ${name} failed without saying why` : text);
    return text;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const failure = this.#failure;
    this.#failure = null;
    this.#isOver = true;
    await this.#lease[Symbol.asyncDispose]();
    if (failure !== null) throw failure;
  }
}
