import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import type { Hono } from 'hono';
import { ConfigError } from '../core/errors.ts';

export interface RunningServer {
  /** `http://host:port`, with the port that was really given. */
  readonly url: string;
  /** Takes no new connection, lets requests under way finish for at most `graceMs`, then cuts them. Safe to call twice. */
  close(options: { readonly graceMs: number }): Promise<void>;
}

export interface ListenOptions {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** How long a new connection may stay without a byte; less than `headersTimeout`. @default 110,000 */
  readonly silenceMs?: number;
}

/** Serves the app over HTTP. Throws ConfigError when the address cannot be used. */
export async function listen(app: Hono, { host, port, silenceMs = 110_000 }: ListenOptions): Promise<RunningServer> {
  const server = createAdaptorServer({
    fetch: app.fetch,
    overrideGlobalObjects: false,
    // A pooled client must not meet a connection that is just being closed: longer than the pools of Python and Node keep theirs. Those never used, whose request was
    // taken back, they keep without end: they are closed as late as a request may take.
    serverOptions: { keepAliveTimeout: 75_000, headersTimeout: 115_000, requestTimeout: 120_000 },
  }) as Server;
  server.on('connection', (socket) => closeWhereSilent(socket, silenceMs));
  await bind(server, host, port);
  let closing: Promise<void> | null = null;
  server.on('request', (_request, response) => response.once('close', () => closing && server.closeIdleConnections()));
  const address = server.address() as AddressInfo;
  return {
    url: `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`,
    close: ({ graceMs }) => (closing ??= shutDown(server, graceMs)),
  };
}

/** True for addresses that only this machine can reach. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/**
 * Node answers 408 on a connection that never brought a byte, and the next request of a client that keeps it in a pool meets that for its answer. A connection that
 * was closed without a word is no answer.
 */
function closeWhereSilent(socket: Socket, silenceMs: number): void {
  const close = () => {
    if (socket.bytesRead === 0) socket.destroy();
  };
  // What arrived while the process was busy is read first.
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
  if (error.code === 'EADDRINUSE')
    return new ConfigError(`Port ${port} on ${host} is in use; choose another one (--port 0 takes any free one)`, cause);
  if (error.code === 'EACCES') return new ConfigError(`Port ${port} needs more rights than this user has; choose one above 1023`, cause);
  return new ConfigError(`Expected an address of this machine to listen on, got ${host}:${port} (${error.code ?? error.message})`, cause);
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
