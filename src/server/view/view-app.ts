/**
 * The page of `vf-view` and what it reads, over HTTP. Everything is read-only. Text of models and passages is data here and a text node in the page; should markup ever
 * get through, the policy of content lets no script of it run and no request leave.
 */
import { join } from 'node:path';
import { type Context, Hono } from 'hono';
import { openRegularFile } from '../../files/regular-file.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { FileSource } from '../../viewing/file-source.ts';
import { ViewRequestError } from '../../viewing/view-problem.ts';
import type { ComparisonQuery, RolloutPlace, RolloutQuery } from '../../viewing/view-wire.ts';
import { keyCheck } from '../access.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { optionalFlag, optionalNumber, requiredText } from './view-query.ts';

export interface ViewAppOptions {
  readonly source: FileSource;
  /** Folder with index.html, view.js and view.css. */
  readonly page: string;
  /** The address that the app listens on. */
  readonly host: string;
  /** Needed for every answer but the page itself; null where only this machine can ask. */
  readonly token: string | null;
  /** Called for every failure that is not the asker's. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

/** The files of the page, by path. */
const PAGE: Readonly<Record<string, readonly [file: string, type: string]>> = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/view.js': ['view.js', 'text/javascript; charset=utf-8'],
  '/view.css': ['view.css', 'text/css; charset=utf-8'],
};

const IMAGE_TYPES: Readonly<Record<string, string>> = { png: 'image/png', jpg: 'image/jpeg', webp: 'image/webp' };

export function viewApp({ source, page, host, token, onFailure = () => {} }: ViewAppOptions): Hono {
  const app = new Hono();
  const namesThisServer = hostCheck(host);
  const mayAsk = keyCheck(token, new Set(Object.keys(PAGE)));
  app.use(async (c, next) => {
    for (const [name, value] of Object.entries(HEADERS)) c.header(name, value);
    if (!namesThisServer(c.req.raw)) return refuse(c, 403, WRONG_HOST);
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD') return refuse(c, 405, 'This server only answers GET.');
    if (!mayAsk(c.req.path, c.req.header('authorization') ?? imageToken(c)))
      return refuse(c, 401, 'The token is missing or wrong. Open the address that vf-view printed.');
    return next();
  });
  for (const [path, [file, type]] of Object.entries(PAGE))
    app.get(path, async (c) => c.body(await bytesOf(join(page, file)), 200, { 'content-type': type }));

  const answer = (route: string, read: (c: Context) => Promise<object>) => app.get(`/api/${route}`, async (c) => c.json(await read(c)));
  answer('runs', () => source.runs());
  answer('run', (c) => source.run(requiredText(c, 'run')));
  answer('rollouts', (c) => source.rollouts(rolloutQuery(c), c.req.raw.signal));
  answer('rollout', (c) => source.rollout(place(c)));
  answer('tokens', (c) => source.tokens(place(c)));
  answer('metrics', (c) => source.metrics(requiredText(c, 'run'), optionalNumber(c, 'after', { whole: true }) ?? 0));
  answer('step', (c) => source.step(requiredText(c, 'run'), optionalNumber(c, 'step', { whole: true }) ?? 0));
  answer('held-out', (c) => source.heldOut(requiredText(c, 'run'), requiredText(c, 'group')));
  answer('compare', (c) => source.compare(comparisonQuery(c)));
  app.get('/api/image', async (c) => {
    const { bytes, type } = await readImage(await source.directory(requiredText(c, 'run')), requiredText(c, 'sha256'));
    return c.body(bytes, 200, { 'content-type': type, 'cache-control': 'private, max-age=31536000, immutable' });
  });
  app.notFound((c) => refuse(c, 404, 'Nothing is at this address. Open / for the page.'));
  app.onError((error, c) => {
    if (error instanceof ViewRequestError) return refuse(c, error.status, error.message);
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return refuse(c, 404, 'The file is not there any more. Go back to the list of runs.');
    onFailure(error);
    return refuse(c, 500, 'The file could not be read. vf-view -v prints why.');
  });
  return app;
}

/** An img element sends no headers, so its address holds the token. */
function imageToken(c: Context): string | undefined {
  const token = c.req.path === '/api/image' ? c.req.query('token') : undefined;
  return token === undefined ? undefined : `Bearer ${token}`;
}

function refuse(c: Context, status: 400 | 401 | 403 | 404 | 405 | 500, problem: string): Response {
  return c.json({ problem }, status);
}

function place(c: Context): RolloutPlace {
  return {
    run: requiredText(c, 'run'),
    set: requiredText(c, 'set'),
    group: requiredText(c, 'group'),
    index: optionalNumber(c, 'index', { whole: true }) ?? 0,
  };
}

function rolloutQuery(c: Context): RolloutQuery {
  const given = {
    sort: c.req.query('sort'),
    descending: optionalFlag(c, 'descending'),
    stop: c.req.query('stop'),
    task: c.req.query('task'),
    group: c.req.query('group'),
    min_reward: optionalNumber(c, 'min_reward'),
    max_reward: optionalNumber(c, 'max_reward'),
    failed: optionalFlag(c, 'failed'),
    text: c.req.query('text'),
    from: optionalNumber(c, 'from', { whole: true }),
    count: optionalNumber(c, 'count', { whole: true }),
  };
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { run: requiredText(c, 'run'), set: requiredText(c, 'set'), ...fieldsOf(known) };
}

function comparisonQuery(c: Context): ComparisonQuery {
  const sets = (c.req.queries('set') ?? []).map((text) => {
    const colon = text.lastIndexOf(':');
    if (colon < 0) throw new ViewRequestError(400, 'Each set of a comparison is written RUN:SET.');
    return { run: text.slice(0, colon), set: text.slice(colon + 1) };
  });
  const [from, count] = [optionalNumber(c, 'from', { whole: true }), optionalNumber(c, 'count', { whole: true })];
  return {
    sets,
    sort: c.req.query('sort') === 'order' ? 'order' : 'difference',
    ...(from === undefined ? {} : { from }),
    ...(count === undefined ? {} : { count }),
  };
}

async function readImage(directory: string, sha256: string): Promise<{ readonly bytes: Uint8Array<ArrayBuffer>; readonly type: string }> {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new ViewRequestError(400, 'An image is named by the 64 hex digits of its SHA-256.');
  for (const [extension, type] of Object.entries(IMAGE_TYPES)) {
    try {
      return { bytes: await bytesOf(join(directory, 'images', `${sha256}.${extension}`)), type };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new ViewRequestError(404, 'The run has no such image.');
}

async function bytesOf(path: string): Promise<Uint8Array<ArrayBuffer>> {
  await using file = await openRegularFile(path);
  return new Uint8Array(await file.readFile());
}
