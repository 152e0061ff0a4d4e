import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener } from '@hono/node-server';
import type { Hono } from 'hono';
import { ConfigError } from '../core/errors.ts';
import { noteClient } from './client-of.ts';
import { Unread, type UnreadOptions } from './unread.ts';

export interface RunningServer {
  /** `http://host:port`, with the actual port. */
  readonly url: string;
  /** Accepts no new connections, gives running requests up to `graceMs` to finish, then cuts them off. Safe to call twice. */
  close(options: { readonly graceMs: number }): Promise<void>;
}

export interface ListenOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** The time for which a new connection may send nothing, in milliseconds; less than `headersTimeout`. @default 110,000 */
  readonly silenceMs?: number;
  /** What clients that do not read their answers may make the server hold. @default the defaults of Unread */
  readonly unread?: UnreadOptions;
  /** Takes over the connection of a request that asks for a WebSocket, and closes it at the end. @default such a request is answered as any other */
  readonly onUpgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

/** Hands Node's requests to an app. */
export function appListener(app: Hono): RequestListener {
  const listener = getRequestListener(
    (request, env) => {
      if ('incoming' in env) noteClient(request, env.incoming.socket.remoteAddress);
      return app.fetch(request, env);
    },
    { overrideGlobalObjects: false },
  );
  return (request, response) => void listener(request, response);
}

/** Serves an app, or what answers Node's requests itself, over HTTP. Throws ConfigError if the address cannot be used. */
export async function listen(
  served: Hono | RequestListener,
  { host, port, silenceMs = 110_000, unread: limits, onUpgrade }: ListenOptions,
): Promise<RunningServer> {
  const unread = new Unread(limits);
  const upgrades = onUpgrade === undefined ? {} : { shouldUpgradeCallback: asksForWebSocket };
  const answer = typeof served === 'function' ? served : appListener(served);
  // Idle connections stay open longer than in the pools of Python and Node, so that a client does not reuse one that is just being closed. Pools keep unused
  // connections forever, so these are closed only after requestTimeout.
  const server = createServer({ keepAliveTimeout: 75_000, headersTimeout: 115_000, requestTimeout: 120_000, ...upgrades }, (request, response) => {
    if (!hasOneHost(request)) response.writeHead(400, { connection: 'close', 'content-type': 'application/json' }).end(TWO_HOSTS);
    else if (unread.admits(request, response)) answer(request, response);
  });
  if (onUpgrade !== undefined) {
    server.on('upgrade', (request, socket, head) => {
      if (hasOneHost(request)) return onUpgrade(request, socket, head);
      socket.on('error', () => socket.destroy());
      socket.end(`HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n${TWO_HOSTS}`, () => socket.destroy());
    });
  }
  server.on('connection', (socket) => {
    unread.watch(socket);
    closeWhereSilent(socket, silenceMs);
  });
  server.once('close', () => unread.close());
  await bind(server, host, port);
  let closing: Promise<void> | null = null;
  server.on('request', (_request, response) => response.once('close', () => closing && server.closeIdleConnections()));
  const address = server.address() as AddressInfo;
  return {
    url: `http://${hostText(address)}:${address.port}`,
    close: ({ graceMs }) => (closing ??= shutDown(server, graceMs)),
  };
}

/** As it stands in a URL. */
export function hostText({ address, family }: AddressInfo): string {
  return family === 'IPv6' ? `[${address}]` : address;
}

const TWO_HOSTS = JSON.stringify({ detail: 'The request has more than one host header; send one' });

/** Node reads the first one alone, and a proxy before the server may have read another (RFC 9112, 3.2). */
function hasOneHost({ rawHeaders }: IncomingMessage): boolean {
  return rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length <= 1;
}

/** Some clients offer HTTP/2 in the same header; they are answered without it. */
function asksForWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket';
}

/** True if only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/**
 * Node answers 408 on a connection that never sent a byte, and a pooled client would take that as the answer to its next request. Closing the connection silently
 * before then avoids it.
 */
function closeWhereSilent(socket: Socket, silenceMs: number): void {
  const close = () => {
    if (socket.bytesRead === 0) socket.destroy();
  };
  // Bytes that arrived while the process was busy are read first.
  const timer = setTimeout(() => setImmediate(close), silenceMs);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}

function bind(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(bindError(error, host, port)));
    server.listen(port, host, resolve);
  });
}

function bindError(error: NodeJS.ErrnoException, host: string, port: number): ConfigError {
  const cause = { cause: error };
  if (error.code === 'EADDRINUSE') return new ConfigError(`Port ${port} on ${host} is in use; choose another one (--port 0 picks a free one)`, cause);
  if (error.code === 'EACCES') return new ConfigError(`This user may not listen on port ${port}; choose one above 1023`, cause);
  return new ConfigError(`Could not listen on ${host}:${port} (${error.code ?? error.message}); choose an address of this machine`, cause);
}

function shutDown(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMs);
    server.close(() => {
      clearTimeout(cut);
      resolve();
    });
    server.closeIdleConnections();
  });
}
