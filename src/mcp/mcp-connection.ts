/**
 * A connection to a server over the Model Context Protocol: a process that is started and ended with it, or a server that is reached over HTTP. Its messages are bounded, and
 * what it says of itself reaches messages without secrets.
 */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { causeText, thrownText, VfError } from '../core/errors.ts';
import { systemText } from '../files/system-text.ts';
import { boundedResponse } from '../transport/bounded-response.ts';
import { headerCredentials, settingCredentials, urlCredentials, variableCredentials, wordCredentials } from '../transport/credentials.ts';
import { redactUrl, secretRedactor } from '../transport/redact.ts';
import { shownWords } from '../transport/shown-words.ts';
import { boundTraffic } from './bound-traffic.ts';
import { MOST_MESSAGE_BYTES, StdioTransport } from './stdio-transport.ts';

/** Where a server is. */
export type McpSource =
  /** It is started, with the usual variables of a shell and `env`, but without those of this process. */
  | { readonly kind: 'command'; readonly command: string; readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> }
  | { readonly kind: 'url'; readonly url: string; readonly headers: Readonly<Record<string, string>> };

/** A tool as a server lists it. The types of the optional package stay out of the declarations, which must read without it. */
export interface McpListedTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: McpObjectSchema;
  readonly outputSchema?: McpObjectSchema | undefined;
}

interface McpObjectSchema {
  readonly type: 'object';
  readonly properties?: Readonly<Record<string, object>> | undefined;
  readonly required?: readonly string[] | undefined;
  readonly [keyword: string]: unknown;
}

interface McpRequest {
  /** In milliseconds. */
  readonly timeout: number;
  readonly signal: AbortSignal;
}

/** What is asked of a server. */
export interface McpClient {
  callTool(call: { name: string; arguments: Record<string, unknown> }, schema: undefined, request: McpRequest): Promise<McpCalled>;
  getServerCapabilities(): { readonly prompts?: object | undefined } | undefined;
  listPrompts(params: object, request: McpRequest): Promise<{ readonly prompts: readonly McpPrompt[] }>;
  getPrompt(
    prompt: { name: string; arguments: Record<string, string> },
    request: McpRequest,
  ): Promise<{ readonly messages: readonly { readonly content: unknown }[] }>;
}

interface McpCalled {
  readonly content?: unknown;
  readonly structuredContent?: unknown;
  readonly isError?: unknown;
  readonly [further: string]: unknown;
}

interface McpPrompt {
  readonly name: string;
  readonly arguments?: readonly { readonly name: string; readonly required?: boolean | undefined }[] | undefined;
}

export interface McpConnectOptions {
  /** The folder in which a command runs. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** Deadline for starting, connecting and listing, in milliseconds. */
  readonly timeoutMs: number;
  /** Of a message that says what happened. */
  readonly makeError: (message: string, cause: unknown) => VfError;
}

/** Most pages of a list of tools. */
const MOST_PAGES = 100;
/** Characters of another program's words in a message. */
const MOST_QUOTED = 300;
/** For the end of a session over HTTP, in milliseconds. */
const END_MS = 1000;
/** For the answer to a ping, in milliseconds. */
const PING_MS = 5000;

/** Codes of answers that are about the call alone: no such tool, arguments that do not fit. */
const ABOUT_THE_CALL: readonly unknown[] = [-32601, -32602];
/** Codes of the package for requests without an answer. */
const [CLOSED, TIMEOUT] = [-32000, -32001];

/**
 * How a request ended, judged by what it threw. `refused`: the server has no such tool, or the arguments do not fit. `answered`: another error of the server.
 * `silent`: there was no answer in time. `lost`: there can be none.
 */
export function outcomeOf(thrown: unknown): 'refused' | 'answered' | 'silent' | 'lost' {
  const { code } = thrown as { readonly code?: unknown };
  if (ABOUT_THE_CALL.includes(code)) return 'refused';
  if (code === TIMEOUT) return 'silent';
  // A status of HTTP is positive.
  return typeof code === 'number' && code < 0 && code !== CLOSED ? 'answered' : 'lost';
}

export class McpConnection {
  readonly client: McpClient;
  readonly #client: Client;
  /** Its command or URL. */
  readonly where: string;
  /** False once it has ended, by whichever side. */
  isOpen = true;
  /** The text without secrets of the server: the credentials that it was given, and values of its variables. */
  readonly hide: (text: string) => string;
  /** The text without credentials; values of variables under ordinary names, and the addresses of others, stay. */
  readonly hideCredentials: (text: string) => string;
  readonly #stdio: StdioTransport | null;
  readonly #endSession: () => Promise<void>;
  #excess: string | null = null;
  #closing: Promise<void> | null = null;

  private constructor(client: Client, source: McpSource, parts: { readonly stdio: StdioTransport | null; readonly endSession: () => Promise<void> }) {
    this.client = client;
    this.#client = client;
    this.#stdio = parts.stdio;
    this.#endSession = parts.endSession;
    [this.hide, this.hideCredentials] = hiding(source);
    this.where = this.hide(source.kind === 'url' ? source.url : shownWords([source.command, ...source.args]).join(' '));
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the client has no other way
    client.onclose = () => (this.isOpen = false);
  }

  /** Rejects with an error of `makeError` if the package is missing, or the server cannot be started, reached or understood. */
  static async open(name: string, source: McpSource, options: McpConnectOptions): Promise<McpConnection> {
    const { signal, timeoutMs, makeError } = options;
    const { connection, transport } = await connectionFor(name, source, options, (client, of, parts) => new McpConnection(client, of, parts));
    try {
      await connection.#client.connect(transport, { timeout: timeoutMs, signal });
      return connection;
    } catch (cause) {
      await connection.close();
      if (signal.aborted) throw signal.reason;
      throw makeError(
        `The MCP server ${name} (${connection.where}) cannot be used: ${connection.quote(systemText(cause))}`,
        connection.cleaned(cause),
      );
    }
  }

  /**
   * All pages of the list; none of a server without tools. Not by the client's own method: that would compile the schemas of the outputs, and a pattern among them could hang
   * every answer.
   */
  async tools(request: { readonly timeout: number; readonly signal: AbortSignal }): Promise<readonly McpListedTool[]> {
    if (this.#client.getServerCapabilities()?.tools === undefined) return [];
    const { ListToolsResultSchema } = await import('@modelcontextprotocol/sdk/types.js');
    const tools: McpListedTool[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page++) {
      const listed = await this.#client.request(
        { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
        ListToolsResultSchema,
        request,
      );
      tools.push(...listed.tools);
      cursor = listed.nextCursor;
      if (cursor === undefined || cursor === '') return tools;
    }
    throw new VfError(`it lists its tools on more than ${MOST_PAGES} pages`);
  }

  /** True if the server answers a ping, be it with an error. */
  async answers(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#client.ping({ timeout: PING_MS, signal });
      return true;
    } catch (error) {
      return ['refused', 'answered'].includes(outcomeOf(error));
    }
  }

  /** What was thrown in one line without secrets, with why the connection was ended, and the end of what the server wrote to stderr. */
  quote(thrown: unknown): string {
    // Hidden before they are cut: half of a secret would not be recognised.
    const written = oneLine(this.hide(this.#stdio?.written ?? '').slice(-MOST_QUOTED));
    const said = oneLine(this.hide(typeof thrown === 'string' ? thrown : thrownText(thrown)));
    const parts = [said, this.#excess ?? '', written === '' ? '' : `it wrote: ${written}`];
    return parts.filter((part) => part !== '').join('; ');
  }

  /** What was thrown as a cause without secrets: the causes of an error are recorded with it. */
  cleaned(thrown: unknown): Error {
    const { name, stack } = thrown instanceof Error ? thrown : new Error('not an Error');
    const cleaned = new Error(this.hide(causeText(thrown)));
    return Object.assign(cleaned, { name, ...(stack !== undefined && { stack: this.hide(stack) }) });
  }

  /** Ends the connection and, with its processes, a server that it started. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.isOpen = false;
    await this.#endSession().catch(() => {});
    await this.#client.close().catch(() => {});
    // The client forgets a transport that failed.
    await this.#stdio?.close();
  }

  /** Ends every request, because of what the server sent: the package would wait for the end of a stream that failed. */
  refuse(excess: string): Error {
    this.#excess ??= excess;
    void this.close();
    return new Error('the connection was ended');
  }
}

type Make = (
  client: Client,
  source: McpSource,
  parts: { readonly stdio: StdioTransport | null; readonly endSession: () => Promise<void> },
) => McpConnection;

async function connectionFor(name: string, source: McpSource, { cwd, makeError }: McpConnectOptions, make: Make) {
  const fromSdk = <T>(load: () => Promise<T>) => loaded(name, load, makeError);
  const { Client: McpClient } = await fromSdk(() => import('@modelcontextprotocol/sdk/client/index.js'));
  const client = new McpClient({ name: 'vf-search', version: '1' });
  let refuse = (excess: string): Error => new Error(excess);
  if (source.kind === 'url') {
    const { StreamableHTTPClientTransport } = await fromSdk(() => import('@modelcontextprotocol/sdk/client/streamableHttp.js'));
    const bounded = async (url: string | URL, init?: RequestInit) =>
      boundedResponse(await fetch(url, init), MOST_MESSAGE_BYTES, (excess) => refuse(`its message ${excess}`));
    const transport = new StreamableHTTPClientTransport(new URL(source.url), { requestInit: { headers: source.headers }, fetch: bounded });
    const endSession = () => Promise.race([transport.terminateSession(), new Promise<void>((resolve) => setTimeout(resolve, END_MS).unref())]);
    const connection = make(client, source, { stdio: null, endSession });
    refuse = (excess) => connection.refuse(excess);
    boundTraffic(transport, refuse);
    return { connection, transport };
  }
  const { getDefaultEnvironment } = await fromSdk(() => import('@modelcontextprotocol/sdk/client/stdio.js'));
  const { deserializeMessage: parse } = await fromSdk(() => import('@modelcontextprotocol/sdk/shared/stdio.js'));
  const { command, args, env } = source;
  const onExcess = (excess: string) => void refuse(`its message ${excess}`);
  const transport = new StdioTransport({ command, args, cwd, env: { ...getDefaultEnvironment(), ...env }, parse, onExcess });
  const connection = make(client, source, { stdio: transport, endSession: async () => {} });
  refuse = (excess) => connection.refuse(excess);
  boundTraffic(transport, refuse);
  return { connection, transport };
}

/** The package is an optional peer. */
async function loaded<T>(name: string, load: () => Promise<T>, makeError: McpConnectOptions['makeError']): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (!/^ERR_MODULE_NOT_FOUND|^ERR_PACKAGE/.test((cause as NodeJS.ErrnoException).code ?? '')) throw cause;
    throw makeError(
      `The server ${name} is an MCP server, which needs the package @modelcontextprotocol/sdk; run npm install @modelcontextprotocol/sdk`,
      cause,
    );
  }
}

function hiding(source: McpSource): readonly [hide: (text: string) => string, hideCredentials: (text: string) => string] {
  const credentials =
    source.kind === 'url'
      ? [...headerCredentials(source.headers), ...urlCredentials(source.url)]
      : [...settingCredentials(source.env), ...wordCredentials(source.args)];
  const hide = secretRedactor(source.kind === 'url' ? credentials : [...credentials, ...variableCredentials(source.env)]);
  return [(text) => hide(redactUrl(text)), credentials.length === 0 ? (text) => text : secretRedactor(credentials)];
}

export function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim().slice(0, MOST_QUOTED);
}
