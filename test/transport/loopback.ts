/** A loopback HTTP server for one test: `await using server = await loopback(handler)`. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface Loopback extends AsyncDisposable {
  readonly url: string;
  /** `GET /path` of every request that arrived, in order. */
  readonly requests: readonly string[];
  /** Connections open now. */
  connections(): Promise<number>;
  /** Resolves once the connection of the latest request is gone. */
  dropped(): Promise<void>;
}

export async function loopback(handler: (request: IncomingMessage, response: ServerResponse) => unknown): Promise<Loopback> {
  const requests: string[] = [];
  let socket: Socket | undefined;
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    socket = request.socket;
    void handler(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    connections: () => new Promise((resolve, reject) => server.getConnections((error, count) => (error ? reject(error) : resolve(count)))),
    dropped: () => until(() => socket?.closed === true),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

export function sendJson(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

/** A port that nothing listens on. */
export async function refusingUrl(): Promise<string> {
  const server = await loopback(() => {});
  await server[Symbol.asyncDispose]();
  return server.url;
}

/** Polls until the claim holds; the test's own time limit bounds it. */
export async function until(claim: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await claim())) await new Promise((resolve) => setTimeout(resolve, 2));
}
