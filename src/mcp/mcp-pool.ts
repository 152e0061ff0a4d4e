/** The clients of one MCP server: one for all episodes, or one at a time for each, where the server has state. A client that failed is ended, and another takes its place. */
import { cancelled, untilAborted } from '../core/abort.ts';
import { ToolError } from '../core/errors.ts';
import { type McpConnection, outcomeOf } from './mcp-connection.ts';
import { readText, type ReadResult, resultText } from './mcp-result.ts';

/** What an episode begins with: the shared client, a new client, or a client on which this tool was called. */
export type McpReset = 'none' | 'client' | { readonly tool: string; readonly args?: Readonly<Record<string, unknown>> };

export interface McpPoolOptions {
  readonly name: string;
  /** The connection that listed the tools; nobody has called any on it. */
  readonly first: McpConnection;
  readonly open: (signal: AbortSignal) => Promise<McpConnection>;
  readonly reset: McpReset;
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number;
  /** The longest text of a result. */
  readonly maxChars: number;
}

type Arguments = Readonly<Record<string, unknown>>;

/** The clients of an episode. */
export interface McpLease extends AsyncDisposable {
  /** A call that the server does not take has a result that is an error. Rejects with ToolError if the server failed. */
  call(tool: string, args: Arguments, signal: AbortSignal): Promise<ReadResult>;
}

/** Calls in a row that the shared client may leave unanswered before it is replaced although it answers pings. */
const MOST_UNANSWERED = 3;

export class McpPool {
  readonly #options: McpPoolOptions;
  readonly #all = new Set<McpConnection>();
  /** Those that no episode has. */
  readonly #free: McpConnection[];
  #shared: Promise<McpConnection> | null = null;
  /** Calls that were not answered in time, since the last one that was. */
  readonly #unanswered = new WeakMap<McpConnection, number>();
  /** Those that are asked whether they are still there. */
  readonly #doubted = new WeakSet<McpConnection>();
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
      call: async (tool, args, signal) => this.#call(await connection(signal), tool, args, signal),
      [Symbol.asyncDispose]: async () => {
        const left = await own?.catch(() => null);
        own = null;
        if (left === null || left === undefined) return;
        if (reset !== 'client' && left.isOpen && !this.#isClosed) this.#free.push(left);
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
      // The end of the episode that happens to connect must not end the connection of all.
      const shared = this.#shared ?? this.#share(this.#taken(this.#ending.signal));
      const connection = await untilAborted(shared, signal, () => cancelled(signal));
      if (connection.isOpen) return connection;
      // The first episode that finds it gone connects again, for all.
      if (this.#shared === shared) this.#shared = null;
    }
  }

  #share(connecting: Promise<McpConnection>): Promise<McpConnection> {
    this.#shared = connecting;
    connecting.catch(() => {
      if (this.#shared === connecting) this.#shared = null;
    });
    return connecting;
  }

  /** The next calls wait until it is known whether the shared client is still there, or for another one. */
  #doubt(connection: McpConnection): void {
    if (this.#doubted.has(connection)) return;
    this.#doubted.add(connection);
    void this.#share(this.#keptOrNew(connection).finally(() => this.#doubted.delete(connection)));
  }

  async #keptOrNew(connection: McpConnection): Promise<McpConnection> {
    const { signal } = this.#ending;
    const isThere = await connection.answers(signal);
    if (isThere && (this.#unanswered.get(connection) ?? 0) < MOST_UNANSWERED) return connection;
    await this.#end(connection);
    return this.#taken(signal);
  }

  /** A client for one episode, from the state in which it begins. */
  async #begun(signal: AbortSignal): Promise<McpConnection> {
    const { reset, name } = this.#options;
    const connection = await this.#taken(signal);
    if (typeof reset === 'string') return connection;
    try {
      const { isError } = await this.#call(connection, reset.tool, reset.args ?? {}, signal);
      if (isError) throw new ToolError(`The MCP server ${name} was not reset: its tool ${reset.tool} reported an error`, { retryable: true });
      return connection;
    } catch (error) {
      await this.#end(connection);
      throw error;
    }
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

  async #call(connection: McpConnection, tool: string, args: Arguments, signal: AbortSignal): Promise<ReadResult> {
    const { name, reset, timeoutMs, maxChars } = this.#options;
    if (!connection.isOpen) {
      const why = connection.quote('');
      const gone = `The MCP server ${name} is gone, and with it what this episode had done`;
      throw new ToolError(why === '' ? gone : `${gone}: ${why}`, { retryable: true });
    }
    try {
      const result = await connection.client.callTool({ name: tool, arguments: { ...args } }, undefined, { signal, timeout: timeoutMs });
      this.#unanswered.delete(connection);
      return resultText(result, { maxChars, connection });
    } catch (cause) {
      const isCancelled = signal.aborted;
      const outcome = isCancelled ? 'silent' : outcomeOf(cause);
      if (outcome === 'refused') return { isError: true, text: readText(connection.hide(refusalText(cause)), maxChars) };
      const failed = new ToolError(`The MCP server ${name} failed at ${tool}: ${connection.quote(cause)}`, {
        cause: connection.cleaned(cause),
        retryable: true,
      });
      // A call that its rollout gave up might have been answered in time.
      if (outcome === 'silent' && !isCancelled) this.#unanswered.set(connection, (this.#unanswered.get(connection) ?? 0) + 1);
      if (outcome === 'silent' && reset === 'none') this.#doubt(connection);
      // What became of the call is not known, so no episode can go on with the client that made it.
      else if (outcome !== 'answered') await this.#end(connection);
      throw isCancelled ? cancelled(signal) : failed;
    }
  }

  async #end(connection: McpConnection): Promise<void> {
    await connection.close();
    this.#all.delete(connection);
  }
}

function refusalText(cause: unknown): string {
  return (cause as Error).message.replace(/^(MCP error -\d+: )+/, '');
}
