/**
 * A server on loopback through which unmodified agents ask the policy: a program that speaks Chat Completions, Responses or Anthropic's Messages gets a base URL and a key. One
 * server holds many sessions. It knows no tokens and no rollouts; a session is a function that answers requests.
 */
import type { AgentGateway, GatewayAddress, GatewaySession } from '../../agents/agent-gateway.ts';
import { onAbort } from '../../core/abort.ts';
import { listen, type RunningServer } from '../listen.ts';
import { type GatewayListenerOptions, gatewayListener } from './gateway-listener.ts';
import { OpenSessions } from './open-sessions.ts';

export interface GatewayOptions {
  /** Closes the gateway. @default it is open until `close` */
  readonly signal?: AbortSignal;
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** 0 picks a free port. @default 0 */
  readonly port?: number;
  /** The address under which agents reach it, without a path. @default the one that it listens on */
  readonly publicUrl?: string;
  /** Largest body of a request. @default 32 MiB */
  readonly maxBodyBytes?: number;
  /** Answers requests that are none of an agent's; false leaves a request to the agents' routes. @default none */
  readonly first?: NonNullable<GatewayListenerOptions['first']>;
  /** Called for every failure of the gateway itself. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

/** Long enough for a refusal to arrive. */
const GRACE_MS = 1000;

/**
 * @example
 * await using gateway = await Gateway.open();
 * using address = gateway.add({ model: 'policy', ask: (request, signal) => session.ask(request, signal), count });
 * const client = new OpenAI({ baseURL: address.baseURL, apiKey: address.apiKey });
 */
export class Gateway implements AgentGateway, AsyncDisposable {
  readonly #sessions: OpenSessions;
  readonly #server: RunningServer;
  readonly #listening: Disposable | null;

  readonly #publicUrl: string;

  private constructor(sessions: OpenSessions, server: RunningServer, { signal, publicUrl = server.url }: GatewayOptions) {
    this.#sessions = sessions;
    this.#server = server;
    this.#publicUrl = publicUrl.endsWith('/') ? publicUrl.slice(0, -1) : publicUrl;
    this.#listening = signal === undefined ? null : onAbort(signal, () => void this.close());
  }

  /** Throws ConfigError if the address cannot be used. */
  static async open(options: GatewayOptions = {}): Promise<Gateway> {
    const { host = '127.0.0.1', port = 0, onFailure = () => {} } = options;
    const sessions = new OpenSessions();
    const listener = gatewayListener({ onFailure, ...options, sessions, host });
    return new Gateway(sessions, await listen(listener, { host, port }), options);
  }

  /** `http://host:port` */
  get url(): string {
    return this.#server.url;
  }

  /**
   * The address is `http://127.0.0.1:PORT/s/ID/v1`, which nobody can guess, so that any key opens it except that of another session. The key opens the session at
   * `http://127.0.0.1:PORT/v1` too, for a tool that takes no path. Requests that are being answered when it closes, and all later ones, are refused.
   */
  add(answers: GatewaySession): GatewayAddress & Disposable {
    const session = this.#sessions.open(answers);
    const close = () => this.#sessions.end(session);
    return { baseURL: `${this.#publicUrl}/s/${session.id}/v1`, apiKey: session.apiKey, close, [Symbol.dispose]: close };
  }

  /** Ends every session and gives requests a second to finish. Safe to call twice. */
  async close(): Promise<void> {
    this.#listening?.[Symbol.dispose]();
    this.#sessions.endAll();
    await this.#server.close({ graceMs: GRACE_MS });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
