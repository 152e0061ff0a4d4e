/** The clients of one MCP server: one for all episodes, or one at a time for each, where the server has state. A client that failed is ended, and another takes its place. */
import { cancelled, untilAborted } from '../core/abort.ts';
import { ToolError } from '../core/errors.ts';
import type { McpConnection } from './mcp-connection.ts';

/** What an episode begins with: the shared client, a new client, or a client on which this tool was called. */
export type McpReset = 'none' | 'client' | { readonly tool: string; readonly args?: Readonly<Record<string, unknown>> };

export interface McpPoolOptions {
  readonly name: string;
  /** The connection that listed the tools; nobody has called any on it. */
  readonly first: McpConnection;
  readonly open: (signal: AbortSignal) => Promise<McpConnection>;
  readonly reset: McpReset;
  /** Deadline of the call that resets, in milliseconds. */
  readonly timeoutMs: number;
}

interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** The clients of an episode. */
export interface McpLease extends AsyncDisposable {
  /** The result as the server gave it. Rejects with ToolError if the server failed, and with an Error for arguments that it does not take. */
  call(tool: string, args: Readonly<Record<string, unknown>>, options: CallOptions): Promise<unknown>;
}

/** Codes of answers that are about the call alone: no such tool, arguments that do not fit. */
const ABOUT_THE_CALL: readonly unknown[] = [-32601, -32602];

/** Codes of the package for calls without an answer. */
const [CLOSED, TIMEOUT] = [-32000, -32001];

export class McpPool {
  readonly #options: McpPoolOptions;
  readonly #all = new Set<McpConnection>();
  /** Those that no episode has. */
  readonly #free: McpConnection[];
  #shared: Promise<McpConnection> | null = null;
  /** Those that did not answer a call in time: what became of it is not known. */
  readonly #silent = new WeakSet<McpConnection>();
  #isClosed = false;
  readonly #ending = new AbortController();

  constructor(options: McpPoolOptions) {
    this.#options = options;
    this.#free = [options.first];
    this.#all.add(options.first);
  }

  /** Connects at the first call. */
  lease(): McpLease {
    const { reset } = this.#options;
    let own: Promise<McpConnection> | null = null;
    const connection = (signal: AbortSignal) => (reset === 'none' ? this.#sharedOne(signal) : (own ??= this.#begun(signal)));
    return {
      call: async (tool, args, options) => this.#call(await connection(options.signal), tool, args, options),
      [Symbol.asyncDispose]: async () => {
        const left = await own?.catch(() => null);
        own = null;
        if (left === null || left === undefined) return;
        if (reset !== 'client' && left.isOpen && !this.#isClosed && !this.#silent.has(left)) this.#free.push(left);
        else await this.#end(left);
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#ending.abort();
    await Promise.all([...this.#all].map((connection) => this.#end(connection)));
  }

  async #sharedOne(signal: AbortSignal): Promise<McpConnection> {
    for (;;) {
      const shared = (this.#shared ??= this.#connected());
      const connection = await untilAborted(shared, signal, () => cancelled(signal));
      if (connection.isOpen) return connection;
      // The first episode that finds it gone connects again, for all.
      if (this.#shared === shared) this.#shared = null;
    }
  }

  /** The end of the episode that happens to connect must not end the connection of all. */
  #connected(): Promise<McpConnection> {
    const connected = this.#taken(this.#ending.signal);
    connected.catch(() => {
      if (this.#shared === connected) this.#shared = null;
    });
    return connected;
  }

  /** A client for one episode, from the state in which it begins. */
  async #begun(signal: AbortSignal): Promise<McpConnection> {
    const { reset, name, timeoutMs } = this.#options;
    const connection = await this.#taken(signal);
    if (typeof reset === 'string') return connection;
    const result = (await this.#call(connection, reset.tool, reset.args ?? {}, { signal, timeoutMs })) as { readonly isError?: boolean };
    if (result.isError !== true) return connection;
    await this.#end(connection);
    throw new ToolError(`The MCP server ${name} was not reset: its tool ${reset.tool} reported an error`, { retryable: true });
  }

  async #taken(signal: AbortSignal): Promise<McpConnection> {
    const { name, open } = this.#options;
    if (this.#isClosed) throw new ToolError(`The tools of the MCP server ${name} are closed`);
    for (let free = this.#free.pop(); free !== undefined; free = this.#free.pop()) {
      if (free.isOpen) return free;
      await this.#end(free);
    }
    const connection = await open(AbortSignal.any([signal, this.#ending.signal]));
    this.#all.add(connection);
    // It was closed meanwhile.
    if (this.#ending.signal.aborted) await this.#end(connection);
    return connection;
  }

  async #call(
    connection: McpConnection,
    tool: string,
    args: Readonly<Record<string, unknown>>,
    { signal, timeoutMs }: CallOptions,
  ): Promise<unknown> {
    const { name } = this.#options;
    if (!connection.isOpen)
      throw new ToolError(`The MCP server ${name} is gone, and with it what this episode had done: ${connection.quote('')}`, { retryable: true });
    try {
      return await connection.client.callTool({ name: tool, arguments: { ...args } }, undefined, { signal, timeout: timeoutMs });
    } catch (cause) {
      if (signal.aborted) throw cancelled(signal);
      const { code, message } = cause as { readonly code?: unknown; readonly message: string };
      if (ABOUT_THE_CALL.includes(code)) throw new Error(message.replace(/^(MCP error -\d+: )+/, ''), { cause });
      const failed = new ToolError(`The MCP server ${name} failed at ${tool}: ${connection.quote(cause)}`, { cause, retryable: true });
      if (code === TIMEOUT) this.#silent.add(connection);
      // Only an answer shows that the server is there; a status of HTTP is positive.
      const isThere = typeof code === 'number' && code < 0 && code !== CLOSED;
      if (!isThere) await this.#end(connection);
      throw failed;
    }
  }

  async #end(connection: McpConnection): Promise<void> {
    this.#all.delete(connection);
    await connection.close();
  }
}
