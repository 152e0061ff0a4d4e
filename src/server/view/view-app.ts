/**
 * Serves the page of `vf-view` and its data, over any `ViewSource` with images. It accepts only GET and only names that the source knows: no path of a request
 * reaches the disk. The page is static and holds nothing of a run, so only `/api/` needs the token.
 */
import { type Context, Hono } from 'hono';
import { CancelledError, ConfigError, errorMessage, TimeoutError } from '../../core/errors.ts';
import { ViewRequestError } from '../../viewing/view-problem.ts';
import type { RolloutPage, RolloutQuery, ViewProblem, ViewSource } from '../../viewing/view-wire.ts';
import { keyCheck } from '../access.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { comparisonQuery, numberParameter, rolloutPlace, rolloutQuery, tokensPlace, textParameter } from './request-parameters.ts';

/** The parts of a source that the app needs beyond the page's own: bytes of images, and the end of a search for which no client waits. */
interface ServedSource extends ViewSource {
  rollouts(query: RolloutQuery, signal?: AbortSignal): Promise<RolloutPage>;
  imageBytes(run: string, sha256: string): Promise<{ readonly bytes: Buffer; readonly mediaType: string }>;
}

export interface PageFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly mediaType: string;
}

export interface ViewAppOptions {
  readonly source: ServedSource;
  /** The address that the app listens on. */
  readonly host: string;
  /** The token that `/api/` requires as `authorization: Bearer`, or for images as `token` in the query. Null: none. */
  readonly token: string | null;
  /** By name; `index.html` is also `/`. */
  readonly page: ReadonlyMap<string, PageFile>;
  /** Called for every failure that is not the request's own. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS = {
  'content-security-policy': PAGE_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
};

type Answer = (c: Context, source: ServedSource) => Promise<object>;

const ROUTES: Readonly<Record<string, Answer>> = {
  runs: (_, source) => source.runs(),
  run: (c, source) => source.run(textParameter(c, 'run')),
  rollouts: (c, source) => source.rollouts(rolloutQuery(c), c.req.raw.signal),
  rollout: (c, source) => source.rollout(rolloutPlace(c)),
  tokens: (c, source) => source.tokens(tokensPlace(c)),
  metrics: (c, source) => source.metrics(textParameter(c, 'run'), numberParameter(c, 'after') ?? 0),
  step: (c, source) => source.step(textParameter(c, 'run'), numberParameter(c, 'step') ?? 0),
  'held-out': (c, source) => source.heldOut(textParameter(c, 'run'), textParameter(c, 'group')),
  compare: (c, source) => source.compare(comparisonQuery(c)),
};

export function viewApp({ source, host, token, page, onFailure = () => {} }: ViewAppOptions): Hono {
  const app = new Hono();
  const namesThisServer = hostCheck(host);
  const isAllowed = keyCheck(token, new Set());
  app.use(async (c, next) => {
    for (const [name, value] of Object.entries(HEADERS)) c.header(name, value);
    if (!namesThisServer(c.req.raw)) return refuse(c, 403, WRONG_HOST);
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD') return refuse(c, 405, 'vf-view only shows: send GET.', { allow: 'GET, HEAD' });
    return await next();
  });
  app.use('/api/*', async (c, next) => {
    const { path } = c.req;
    // An img element sends no header.
    const given = path === '/api/image' && token !== null ? `Bearer ${c.req.query('token') ?? ''}` : undefined;
    if (isAllowed(path, c.req.header('authorization') ?? given)) return await next();
    return refuse(c, 401, 'The token is missing or wrong. Open the address that vf-view printed, with its #token=.', {
      'www-authenticate': 'Bearer',
    });
  });
  for (const [name, answer] of Object.entries(ROUTES)) app.get(`/api/${name}`, async (c) => c.json(await answer(c, source)));
  app.get('/api/image', async (c) => {
    const { bytes, mediaType } = await source.imageBytes(textParameter(c, 'run'), textParameter(c, 'sha256'));
    return c.body(new Uint8Array(bytes), 200, { 'content-type': mediaType });
  });
  for (const [name, { bytes, mediaType }] of page) {
    const send = (c: Context) => c.body(bytes, 200, { 'content-type': mediaType });
    app.get(`/${name}`, send);
    if (name === 'index.html') app.get('/', send);
  }
  app.notFound((c) => refuse(c, 404, 'Nothing is at this address. Open the address that vf-view printed.'));
  app.onError((error, c) => failure(c, error, onFailure));
  return app;
}

function failure(c: Context, error: Error, onFailure: (error: unknown) => void): Response {
  if (error instanceof ViewRequestError) return refuse(c, error.status, error.message);
  if (error instanceof TimeoutError || error instanceof ConfigError) return refuse(c, 400, error.message);
  // The client has gone.
  if (error instanceof CancelledError || error.name === 'AbortError') return refuse(c, 400, 'The request was given up.');
  onFailure(error);
  return refuse(c, 500, `The answer failed: ${errorMessage(error)}. See the terminal of vf-view.`);
}

function refuse(c: Context, status: 400 | 401 | 403 | 404 | 405 | 500, problem: string, headers: Record<string, string> = {}): Response {
  return c.json({ problem } satisfies ViewProblem, status, { ...HEADERS, ...headers });
}
