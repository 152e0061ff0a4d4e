/**
 * `POST /retrieve` of Search-R1's retrieval server (search_r1/search/retrieval_server.py, commit a14dc3a4), and `POST /search` of UltraRAG's
 * (`{query_list, top_k}` to `{ret_psg: [[text, ...], ...]}`), for any Retriever.
 * Differs from upstream in `return_scores: false`, which fails there and here returns the intended result (`{result: [[document, ...], ...]}`),
 * in its limits (413, 422, 503), and in answering 502 or 504 instead of 500 if the retriever fails.
 */
import { type Context, Hono } from 'hono';
import { onAbort } from '../core/abort.ts';
import { CancelledError, RetrievalError, TimeoutError } from '../core/errors.ts';
import { readJson } from '../core/read-json.ts';
import type { Passage, Retriever } from '../retrieval/retriever.ts';
import { SharedFlight } from '../core/shared-flight.ts';
import { type ParsedRetrieveRequest, parseRetrieveRequest, parseSearchRequest, type RetrieveRequest } from '../schemas/retrieve.ts';
import { BodyBudget, DEFAULT_BODY_TIMEOUT_MS, type ReadBody } from './bounded-body.ts';
import { hostCheck, isJson, WRONG_HOST } from './door.ts';

export interface RetrievalAppOptions {
  readonly retriever: Retriever;
  /** The address that the app listens on. A loopback server answers only requests for a name of this machine. @default any name */
  readonly host?: string;
  /** Passages per query if the request has no topk. @default 3 (upstream) */
  readonly defaultTopk?: number;
  /** @default 1000 */
  readonly maxTopk?: number;
  /** Maximum of queries per request; upstream's trainer sends 2,560. @default 16384 */
  readonly maxQueries?: number;
  /** Maximum of queries times topk per request, which bounds the answer. @default 200000, about 130 MB of Wikipedia */
  readonly maxPassages?: number;
  /** @default 16 MiB */
  readonly maxBodyBytes?: number;
  /** The time that a body may take to arrive (408), in milliseconds. @default 30000 */
  readonly bodyTimeoutMs?: number;
  /** Maximum of concurrent requests, counted once their bodies are read; others get a 503 with retry-after. @default 1024 */
  readonly maxPending?: number;
  /** Deadline of one search. @default 120000 */
  readonly timeoutMs?: number;
  /** Called for every failure of the retriever. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

type Limits = Required<Omit<RetrievalAppOptions, 'retriever' | 'host'>>;

/** A request with its own or the default topk. */
type ResolvedRequest = RetrieveRequest & { readonly topk: number };

/** One of the protocols: the form of its requests and answers. */
interface Protocol {
  readonly parse: (body: unknown) => ParsedRetrieveRequest;
  readonly answer: (lists: readonly (readonly Passage[])[], request: RetrieveRequest) => object;
}

const PROTOCOLS: Readonly<Record<'/retrieve' | '/search', Protocol>> = {
  '/retrieve': {
    parse: parseRetrieveRequest,
    answer: (lists, { returnScores }) => {
      const show: (passage: Passage) => object = returnScores ? scored : document;
      return { result: lists.map((list) => list.map(show)) };
    },
  },
  '/search': { parse: parseSearchRequest, answer: (lists) => ({ ret_psg: lists.map((list) => list.map(({ contents }) => contents)) }) },
};

const RETRY_AFTER = { 'retry-after': '1' };

export function retrievalApp({ retriever, host, ...options }: RetrievalAppOptions): Hono {
  const limits: Limits = {
    defaultTopk: 3,
    maxTopk: 1000,
    maxQueries: 16_384,
    maxPassages: 200_000,
    maxBodyBytes: 16 * 2 ** 20,
    bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS,
    maxPending: 1024,
    timeoutMs: 120_000,
    onFailure: () => {},
    ...options,
  };
  const budget = new BodyBudget({ ...limits, maxTotalBytes: 16 * limits.maxBodyBytes });
  let pending = 0;
  const app = new Hono();
  const namesThisServer = host === undefined ? () => true : hostCheck(host);
  app.use(async (c, next) => (namesThisServer(c.req.raw) ? next() : refuse(c, 403, WRONG_HOST)));
  for (const [route, protocol] of Object.entries(PROTOCOLS)) {
    app.post(route, async (c) => {
      if (!isJson(c.req.raw)) return refuse(c, 415, 'The content-type of the body is not JSON. Send the header content-type: application/json.');
      if (pending >= limits.maxPending) return refuse(c, 503, `${pending} requests are pending; try again later`);
      return budget.withBody(c.req.raw, async (body) => {
        // Counted only once the body is read, so that slow senders do not block the others.
        if (pending >= limits.maxPending) return refuse(c, 503, `${pending} requests are pending; try again later`);
        pending += 1;
        try {
          return await answer(c, body, { retriever, limits, protocol });
        } finally {
          pending -= 1;
        }
      });
    });
    app.all(route, (c) => c.json({ detail: 'Method Not Allowed' }, 405, { allow: 'POST' }));
  }
  app.get('/health', (c) => c.json({ status: 'ok', retriever: retriever.name, default_topk: limits.defaultTopk, pending }));
  app.notFound((c) => c.json({ detail: 'Not Found' }, 404));
  app.onError((error, c) => {
    limits.onFailure(error);
    return c.json({ detail: 'Internal Server Error' }, 500);
  });
  return app;
}

interface Answering {
  readonly retriever: Retriever;
  readonly limits: Limits;
  readonly protocol: Protocol;
}

async function answer(c: Context, body: ReadBody, answering: Answering): Promise<Response> {
  const { limits, protocol } = answering;
  if (!body.ok) return refuse(c, body.status, body.detail);
  let json: unknown;
  try {
    json = readJson(body.text);
  } catch (error) {
    return refuse(c, 422, `The body is not JSON: ${(error as Error).message}`);
  }
  const parsed = protocol.parse(json);
  if (!parsed.ok) return refuse(c, 422, parsed.problem);
  const { queries } = parsed.request;
  const topk = parsed.request.topk ?? limits.defaultTopk;
  if (queries.length > limits.maxQueries)
    return refuse(c, 422, `A request may have at most ${limits.maxQueries} queries, got ${queries.length}; send several requests`);
  if (topk > limits.maxTopk) return refuse(c, 422, `topk must be at most ${limits.maxTopk}, got ${topk}`);
  const passages = queries.length * topk;
  if (passages > limits.maxPassages)
    return refuse(c, 422, `A request may ask for at most ${limits.maxPassages} passages (queries × topk), got ${passages}; send several requests`);
  return search(c, { ...parsed.request, topk }, answering);
}

async function search(c: Context, request: ResolvedRequest, { retriever, limits, protocol }: Answering): Promise<Response> {
  const { queries, topk } = request;
  const client = c.req.raw.signal;
  const stop = new AbortController();
  const late = new TimeoutError(`The retriever did not answer within ${limits.timeoutMs} ms`);
  const timer = setTimeout(() => stop.abort(late), limits.timeoutMs);
  using _ = onAbort(client, () => stop.abort(new CancelledError('The client disconnected')));
  try {
    // SharedFlight ends the wait at the deadline even if the engine ignores its signal.
    const flight = new SharedFlight((signal) => retriever.search(queries, { topk, signal }));
    const lists = await flight.wait(stop.signal);
    return c.json(protocol.answer(lists, request));
  } catch (error) {
    // The client has disconnected and reads no answer.
    if (client.aborted) return c.body(null, 400);
    if (error instanceof CancelledError) return refuse(c, 503, 'The server is stopping');
    limits.onFailure(error);
    if (error instanceof TimeoutError) return refuse(c, 504, error.message);
    return error instanceof RetrievalError ? refuse(c, 502, error.message) : refuse(c, 500, 'Internal Server Error');
  } finally {
    clearTimeout(timer);
  }
}

/** The corpus row: `{id, contents}`, or `{contents}` if the engine has no ids. */
function document({ id, contents }: Passage): { readonly id?: string; readonly contents: string } {
  return id === undefined ? { contents } : { id, contents };
}

/** Omits the score if the engine has none, like upstream's online servers. */
function scored(passage: Passage): { readonly document: ReturnType<typeof document>; readonly score?: number } {
  const { score } = passage;
  return score !== undefined && Number.isFinite(score) ? { document: document(passage), score } : { document: document(passage) };
}

function refuse(c: Context, status: 400 | 403 | 408 | 413 | 415 | 422 | 500 | 502 | 503 | 504, detail: string): Response {
  // The rest of an unread body would be parsed as the next request.
  if (status === 408 || status === 413) c.header('connection', 'close');
  return c.json({ detail }, status, status === 503 ? RETRY_AFTER : {});
}
