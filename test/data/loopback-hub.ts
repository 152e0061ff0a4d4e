/** A hub on loopback with the routes that `@huggingface/hub` uses for files and revisions, and switches for what can go wrong. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LoopbackHub {
  readonly url: string;
  /** `METHOD path` of every request so far. */
  readonly requests: string[];
  /** Cuts the connection in the middle of this many bodies. */
  cutBodies: number;
  /** Sends half of this many bodies as if it were all. */
  shortenBodies: number;
  /** Sends half of this many bodies and then nothing more. */
  stallBodies: number;
  /** Answers this many requests with 503. */
  unavailable: number;
  close(): Promise<void>;
}

export interface HubContent {
  readonly repository: string;
  readonly commit: string;
  /** Path in the repository → text. */
  readonly files: Readonly<Record<string, string>>;
  readonly token?: string;
  /** Answers as the hub does where files are kept in Xet storage, and serves their bytes from another path. */
  readonly xet?: boolean;
  /** Large files are named by their SHA-256, small ones by their Git object id. */
  readonly lfs?: boolean;
}

export async function startLoopbackHub(content: HubContent): Promise<LoopbackHub> {
  const server = createServer((request, response) => {
    hub.requests.push(`${request.method} ${request.url!.split('?')[0]}`);
    void answer(hub, content, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const hub: LoopbackHub = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    cutBodies: 0,
    shortenBodies: 0,
    stallBodies: 0,
    unavailable: 0,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return hub;
}

async function answer(hub: LoopbackHub, content: HubContent, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { repository, commit, files, token, lfs = false, xet = false } = content;
  const [path] = request.url!.split('?') as [string];
  if (hub.unavailable > 0) {
    hub.unavailable -= 1;
    return json(response, 503, { error: 'busy' });
  }
  if (token !== undefined && request.headers.authorization !== `Bearer ${token}`)
    return json(response, 401, { error: 'Invalid username or password.' });
  const [, revision] = new RegExp(`^/api/datasets/${repository}/revision/(.+)$`).exec(path) ?? [];
  if (revision === 'main') return json(response, 200, { _id: 'x', id: repository, sha: commit, lastModified: '2026-01-01T00:00:00Z' });
  if (path === `/api/datasets/${repository}/paths-info/${commit}`) {
    const { paths } = JSON.parse(await bodyOf(request)) as { paths: string[] };
    const found = paths.filter((p) => files[p] !== undefined);
    return json(
      response,
      200,
      found.map((p) => ({ type: 'file', path: p, ...describeFile(files[p]!, lfs), lastCommit: { id: commit, title: '', date: '2026-01-01' } })),
    );
  }
  const prefix = `/datasets/${repository}/resolve/${commit}/`;
  const stored = path.startsWith(prefix) ? path.slice(prefix.length) : path.replace('/storage/', '');
  const text = files[stored];
  if (text === undefined) {
    response.setHeader('x-error-code', 'EntryNotFound');
    return json(response, 404, { error: 'Entry not found' });
  }
  if (xet && path.startsWith(prefix)) return sendXetPointer(stored, Buffer.byteLength(text), request, response);
  sendFile(hub, Buffer.from(text), request, response);
}

function sendXetPointer(stored: string, size: number, request: IncomingMessage, response: ServerResponse): void {
  response.setHeader('location', `/storage/${stored}?signature=x`);
  if (!request.headers.accept?.includes('application/vnd.xet-fileinfo+json')) return void response.writeHead(302).end();
  response.writeHead(200, {
    'content-type': 'application/vnd.xet-fileinfo+json',
    etag: '"x"',
    'x-linked-size': size,
    'x-xet-hash': 'a'.repeat(64),
    link: '<http://127.0.0.1:9/auth>; rel="xet-auth", <http://127.0.0.1:9/reconstruct>; rel="xet-reconstruction-info"',
  });
  response.end('{}');
}

function sendFile(hub: LoopbackHub, bytes: Buffer, request: IncomingMessage, response: ServerResponse): void {
  response.setHeader('etag', `"${createHash('sha1').update(bytes).digest('hex')}"`);
  if (request.headers.range === 'bytes=0-0') {
    response.writeHead(206, { 'content-range': `bytes 0-0/${bytes.length}`, 'content-length': 1 });
    response.end(bytes.subarray(0, 1));
    return;
  }
  const half = bytes.subarray(0, bytes.length >> 1);
  if (hub.cutBodies > 0) {
    hub.cutBodies -= 1;
    response.writeHead(200, { 'content-length': bytes.length });
    response.write(half, () => response.destroy());
    return;
  }
  if (hub.stallBodies > 0) {
    hub.stallBodies -= 1;
    response.writeHead(200, { 'content-length': bytes.length });
    response.write(half);
    return;
  }
  const short = hub.shortenBodies > 0;
  if (short) hub.shortenBodies -= 1;
  response.writeHead(200);
  response.end(short ? half : bytes);
}

function describeFile(text: string, lfs: boolean): object {
  const bytes = Buffer.from(text);
  const oid = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { oid, size: bytes.length, ...(lfs && { lfs: { oid: sha256, size: bytes.length, pointerSize: 134 } }) };
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
