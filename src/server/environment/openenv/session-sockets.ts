/** OpenEnv's WebSockets: decides who may open one, counts them, and finds dead ones. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { keyCheck } from '../../access.ts';
import { DEFAULT_BODY_TIMEOUT_MS } from '../../bounded-body.ts';
import { hostCheck, WRONG_HOST } from '../../door.ts';
import type { HeldBytes } from '../../held-bytes.ts';
import { UnfinishedMessages } from '../../unfinished-messages.ts';
import { EnvironmentRefusal } from '../environment-refusal.ts';
import { OpenEnvSession, type OpenEnvSessionOptions } from './open-env-session.ts';
import { SessionSocket } from './session-socket.ts';
import { WireError } from './wire-error.ts';

export interface SessionSocketsOptions extends OpenEnvSessionOptions {
  /** Null allows everyone. */
  readonly apiKey: string | null;
  /** The address that the server listens on. */
  readonly host: string;
  /** Sessions at a time, at most. */
  readonly maxSessions: number;
  /** The account of everything that the server holds. */
  readonly held: HeldBytes;
  readonly onFailure: (error: unknown) => void;
  /** The time after which a client that needs a place gets that of a session that nobody uses, in milliseconds. */
  readonly idleTimeoutMs: number;
  /** The interval of pings to a client, in milliseconds. @default 60000 */
  readonly pingMs?: number;
  /**
   * The time for which a client may be silent while it generates or trains, in milliseconds. TCP notices a machine that is gone earlier. @default 600000; a server uses its
   * idle timeout
   */
  readonly silentMs?: number;
  /** The time for which a refused client may wait before its first frame, in milliseconds. @default 60000 */
  readonly refusedMs?: number;
  /** The time from the first bytes of a message to its last, in milliseconds. @default 30000, as for a body */
  readonly messageMs?: number;
}

const PATH = '/ws';
/** The bytes of a message, its frames and packets, and how long a client may take to answer a close frame. The types of the library lack the last ones. */
const LIMITS = { maxPayload: 2 ** 20, closeTimeout: 2_000, maxFragments: 2 ** 12, maxBufferedChunks: 2 ** 14 };
/** What messages that are not whole may take of the server's account: 128 MiB of 1 GiB. */
const UNFINISHED_SHARE = 1 / 8;
/** Refused sockets that may wait for their first frame; others are refused without one. */
const MOST_REFUSED = 64;
/** Time for the goodbyes to arrive. */
const GOODBYE_MS = 250;

export class SessionSockets {
  readonly #options: SessionSocketsOptions;
  readonly #sockets = new Set<SessionSocket>();
  readonly #server = new WebSocketServer({ ...LIMITS, noServer: true, perMessageDeflate: false, clientTracking: false });
  readonly #unfinished: UnfinishedMessages<SessionSocket>;
  readonly #pinger: NodeJS.Timeout;
  readonly #namesThisServer: ReturnType<typeof hostCheck>;
  readonly #hasKey: ReturnType<typeof keyCheck>;
  #allClosed: PromiseWithResolvers<void> | null = null;

  constructor(options: SessionSocketsOptions) {
    this.#options = options;
    this.#namesThisServer = hostCheck(options.host);
    this.#hasKey = keyCheck(options.apiKey, new Set());
    this.#unfinished = new UnfinishedMessages({
      maxBytes: options.held.maxBytes * UNFINISHED_SHARE,
      maxMs: options.messageMs ?? DEFAULT_BODY_TIMEOUT_MS,
      end: (socket, why, reason) => (reason === 'late' ? socket.late(why) : socket.cut()),
    });
    this.#pinger = setInterval(() => this.#pingAll(), options.pingMs ?? 60_000);
    this.#pinger.unref();
  }

  /** Takes over the connection of a request that asks for a WebSocket. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const refusal = this.#refusal(request);
    if (refusal !== null) return refuse(socket, refusal);
    this.#server.handleUpgrade(request, socket, head, (opened) => {
      const { maxSessions, held, refusedMs = 60_000, onFailure } = this.#options;
      if (this.#places() >= maxSessions) this.#freePlace();
      const active = this.#places();
      const entry = new SessionSocket(opened, {
        session: new OpenEnvSession(this.#options),
        refusal: active < maxSessions ? null : full(active, maxSessions),
        refusedMs,
        onClosed: (closed) => {
          this.#sockets.delete(closed);
          this.#unfinished.forget(closed);
          if (this.#sockets.size === 0) this.#allClosed?.resolve();
        },
        held,
        onFailure,
      });
      socket.on('data', (chunk: Buffer) => {
        entry.received(chunk);
        if (!socket.destroyed) this.#unfinished.arrived(entry, entry.begun);
      });
      this.#sockets.add(entry);
    });
  }

  /** Refuses new sockets, says goodbye to the others and cuts those that have not left after `graceMs`. */
  async close({ graceMs }: { readonly graceMs: number }): Promise<void> {
    clearInterval(this.#pinger);
    this.#allClosed ??= Promise.withResolvers();
    if (this.#sockets.size === 0) return;
    for (const socket of this.#sockets) socket.goAway();
    const timer = setTimeout(() => this.#sockets.forEach((socket) => socket.cut()), Math.max(graceMs, GOODBYE_MS));
    await this.#allClosed.promise;
    clearTimeout(timer);
  }

  #refusal(request: IncomingMessage): EnvironmentRefusal | null {
    const { host = '', origin, authorization } = request.headers;
    if (!this.#namesThisServer({ headers: new Headers({ host }) })) return new EnvironmentRefusal(403, WRONG_HOST);
    if (origin !== undefined && !isOwn(origin, host)) {
      return new EnvironmentRefusal(403, 'The origin header names another server, so the request comes from its web page. Connect from a program.');
    }
    if (!this.#hasKey(PATH, authorization)) {
      return new EnvironmentRefusal(401, 'The API key is missing or wrong. Send the header authorization: Bearer KEY.');
    }
    if (request.url?.split('?', 1)[0] !== PATH) return new EnvironmentRefusal(404, `There is no WebSocket at this path. Use ${PATH}.`);
    if (this.#allClosed !== null) return new EnvironmentRefusal(503, 'The server is stopping');
    if ([...this.#sockets].filter(({ isRefused }) => isRefused).length >= MOST_REFUSED)
      return new EnvironmentRefusal(503, 'All sessions are taken (--max-sessions). Close some, then try again.');
    return null;
  }

  #places(): number {
    return [...this.#sockets].filter(({ hasPlace }) => hasPlace).length;
  }

  /** A trainer may keep its session through a long update while nobody needs the place, although its episode has timed out. */
  #freePlace(): void {
    const oldest = performance.now() - this.#options.idleTimeoutMs;
    const idle = [...this.#sockets].filter(({ idleSince }) => idleSince !== null && idleSince < oldest);
    idle.toSorted((a, b) => a.idleSince! - b.idleSince!)[0]?.goAway();
  }

  #pingAll(): void {
    const oldest = performance.now() - (this.#options.silentMs ?? 600_000);
    for (const socket of this.#sockets) {
      if (socket.lastHeardAt < oldest) socket.cut();
      else socket.ping();
    }
  }
}

function full(active: number, most: number): WireError {
  const message = `${active} of ${most} sessions are open (--max-sessions). Close some, then connect again.`;
  return new WireError('CAPACITY_REACHED', message, { capacity: { active_sessions: active, max_sessions: most } });
}

function isOwn(origin: string, host: string): boolean {
  return URL.parse(origin)?.host === host.toLowerCase();
}

function refuse(socket: Duplex, { status, body }: EnvironmentRefusal): void {
  const text = JSON.stringify(body);
  const headers = ['connection: close', 'content-type: application/json', `content-length: ${Buffer.byteLength(text)}`];
  if (status === 401) headers.push('www-authenticate: Bearer');
  if (status === 503) headers.push('retry-after: 1');
  socket.once('finish', () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} Refused\r\n${headers.join('\r\n')}\r\n\r\n${text}`);
}
