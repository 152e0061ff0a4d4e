/** A hub on loopback with accounts and many repositories, models and data sets: what is pushed there can be downloaded again. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

interface HubRepositoryState {
  isPrivate: boolean;
  commit: string;
  readonly files: Map<string, Buffer>;
  readonly titles: string[];
}

export interface WritableHub extends AsyncDisposable {
  readonly url: string;
  /** By `models/owner/name` or `datasets/owner/name`. */
  readonly repositories: Map<string, HubRepositoryState>;
  /** `METHOD path` of every request so far. */
  readonly requests: string[];
  /** Awaited before a request is answered. */
  onRequest: () => Promise<void>;
  /** Answers with 503 after this many requests. */
  availableFor: number;
  /** Answers this many requests with 503. */
  unavailable: number;
  /** Breaks the connection in the middle of this many uploads of large files. */
  brokenUploads: number;
  /** Fields of the token in the answer to who it is of, instead of its own. */
  token: Record<string, unknown>;
  /** Breaks the connection in the middle of this many downloads. */
  brokenDownloads: number;
  /** Creates a repository with files. */
  add(key: string, files: Readonly<Record<string, string | Buffer>>, isPrivate?: boolean): HubRepositoryState;
}

/** The only account: it owns `me` and writes to `lab`. */
export const WRITER = 'hf_writer_0123456789';
export const READER = 'hf_reader_0123456789';
/** From here up files are large; safetensors always are. */
const LARGE_BYTES = 20_000;

export async function writableHub(): Promise<WritableHub> {
  const objects = new Map<string, Buffer>();
  const server = createServer((request, response) => {
    hub.requests.push(`${request.method} ${request.url!.split('?')[0]}`);
    answer(hub, objects, request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const hub: WritableHub = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    repositories: new Map(),
    requests: [],
    onRequest: async () => {},
    availableFor: Infinity,
    unavailable: 0,
    brokenUploads: 0,
    token: {},
    brokenDownloads: 0,
    add(key, files, isPrivate = false) {
      const entries = Object.entries(files).map(([path, content]): [string, Buffer] => [path, Buffer.from(content)]);
      const made = { isPrivate, commit: '0'.repeat(40), files: new Map(entries), titles: [] };
      hub.repositories.set(key, made);
      return made;
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return hub;
}

async function answer(hub: WritableHub, objects: Map<string, Buffer>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = decodeURIComponent(request.url!.split('?')[0]!);
  const token = request.headers.authorization?.replace('Bearer ', '') ?? null;
  await hub.onRequest();
  if (hub.requests.length > hub.availableFor) return json(response, 503, { error: 'busy' });
  if (hub.unavailable > 0) {
    hub.unavailable -= 1;
    return json(response, 503, { error: 'busy' });
  }
  // Storage elsewhere: a signed address, and no token.
  if (path.startsWith('/storage/')) return store(hub, objects, path.slice('/storage/'.length), request, response);
  if (token !== null && token !== WRITER && token !== READER) return json(response, 401, { error: 'Invalid username or password.' });
  if (path === '/api/whoami-v2') {
    if (token === null) return json(response, 401, { error: 'Invalid username or password.' });
    const role = token === WRITER ? 'write' : 'read';
    const auth = { type: 'access_token', accessToken: { displayName: 't', role, createdAt: '2026-01-01', ...hub.token } };
    const orgs = [
      { type: 'org', id: 'o', name: 'lab', roleInOrg: 'contributor' },
      { type: 'org', id: 'p', name: 'library', roleInOrg: 'read' },
    ];
    return json(response, 200, { type: 'user', id: 'u', name: 'me', fullname: 'Me', orgs, auth });
  }
  if (request.method === 'POST') return write(hub, objects, { path, token }, request, response);
  const [, kind, name, rest = ''] = /^(?:\/api)?\/?(models|datasets)?\/?([\w.-]+\/[\w.-]+)(\/.*)?$/.exec(path) ?? [];
  const repository = hub.repositories.get(`${kind ?? 'models'}/${name}`);
  // A private repository does not exist for others.
  if (repository === undefined || (repository.isPrivate && token === null))
    return json(response, token === null ? 401 : 404, { error: 'Repository not found' });
  read(hub, repository, { name: name!, rest }, response);
}

function read(hub: WritableHub, repository: HubRepositoryState, { name, rest }: { name: string; rest: string }, response: ServerResponse): void {
  const { commit, files } = repository;
  if (rest === '' || rest === '/revision/main') return json(response, 200, { _id: 'x', id: name, sha: commit, lastModified: '2026-01-01T00:00:00Z' });
  if (rest === `/tree/${commit}`)
    return json(
      response,
      200,
      [...files].map(([path, bytes]) => ({ type: 'file', path, ...described(path, bytes) })),
    );
  const [, file] = new RegExp(`^/resolve/${commit}/(.+)$`).exec(rest) ?? [];
  const bytes = file === undefined ? undefined : files.get(file);
  if (bytes === undefined) return json(response.setHeader('x-error-code', 'EntryNotFound'), 404, { error: 'Entry not found' });
  response.setHeader('etag', `"${hash('sha1', bytes)}"`);
  if (response.req.headers.range === 'bytes=0-0') {
    response.writeHead(206, { 'content-range': `bytes 0-0/${bytes.length}`, 'content-length': 1 }).end(bytes.subarray(0, 1));
    return;
  }
  response.writeHead(200, { 'content-length': bytes.length });
  if (hub.brokenDownloads > 0) {
    hub.brokenDownloads -= 1;
    response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy());
    return;
  }
  response.end(bytes);
}

async function write(
  hub: WritableHub,
  objects: Map<string, Buffer>,
  { path, token }: { path: string; token: string | null },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = (await buffer(request)).toString('utf8');
  if (token !== WRITER) return json(response, 403, { error: 'You do not have the rights to write here.' });
  if (path === '/api/repos/create') {
    const { name, organization, type, visibility } = JSON.parse(body) as Record<string, string>;
    const key = `${type}s/${organization}/${name}`;
    if (hub.repositories.has(key)) return json(response, 409, { error: 'You already created this repo' });
    hub.add(key, { '.gitattributes': '' }, visibility === 'private');
    return json(response, 200, { url: `${hub.url}/${organization}/${name}`, id: `${organization}/${name}` });
  }
  if (path.endsWith('.git/info/lfs/objects/batch')) {
    const wanted = (JSON.parse(body) as { objects: { oid: string; size: number }[] }).objects;
    const actions = ({ oid }: { oid: string }) => (objects.has(oid) ? {} : { actions: { upload: { href: `${hub.url}/storage/${oid}` } } });
    return json(response, 200, { transfer: 'basic', objects: wanted.map((object) => ({ ...object, ...actions(object) })) });
  }
  const [, key, action] = /^\/api\/((?:models|datasets)\/[\w.-]+\/[\w.-]+)\/(preupload|commit)\/main$/.exec(path) ?? [];
  const repository = key === undefined ? undefined : hub.repositories.get(key);
  if (repository === undefined) return json(response, 404, { error: 'Repository not found' });
  if (action === 'preupload') {
    const { files } = JSON.parse(body) as { files: { path: string; size: number }[] };
    return json(response, 200, { files: files.map((file) => ({ path: file.path, uploadMode: isLarge(file.path, file.size) ? 'lfs' : 'regular' })) });
  }
  commitTo(repository, objects, body);
  json(response, 200, { success: true, commitOid: repository.commit, commitUrl: `${hub.url}/commit`, hookOutput: '' });
}

interface Operation {
  readonly key: string;
  readonly value: { readonly path: string; readonly content?: string; readonly oid?: string; readonly summary?: string };
}

function commitTo(repository: HubRepositoryState, objects: Map<string, Buffer>, body: string): void {
  for (const line of body.split('\n')) {
    const { key, value } = JSON.parse(line) as Operation;
    if (key === 'header') repository.titles.push(value.summary ?? '');
    if (key === 'file') repository.files.set(value.path, Buffer.from(value.content!, 'base64'));
    if (key === 'lfsFile') repository.files.set(value.path, objects.get(value.oid!)!);
  }
  repository.commit = hash('sha1', Buffer.from(`${repository.commit}${body}`));
}

async function store(hub: WritableHub, objects: Map<string, Buffer>, oid: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (hub.brokenUploads > 0) {
    hub.brokenUploads -= 1;
    return void response.destroy();
  }
  const bytes = await buffer(request);
  if (request.headers.authorization !== undefined || hash('sha256', bytes) !== oid) return json(response, 400, { error: 'not what was announced' });
  objects.set(oid, bytes);
  json(response, 200, {});
}

function described(path: string, bytes: Buffer): object {
  const sha256 = hash('sha256', bytes);
  return {
    oid: createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex'),
    size: bytes.length,
    ...(isLarge(path, bytes.length) && { lfs: { oid: sha256, size: bytes.length, pointerSize: 134 } }),
  };
}

function isLarge(path: string, size: number): boolean {
  return size > LARGE_BYTES || path.endsWith('.safetensors');
}

function hash(algorithm: string, bytes: Buffer): string {
  return createHash(algorithm).update(bytes).digest('hex');
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
