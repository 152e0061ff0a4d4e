/** Opens a retriever of document pages at the URL of a server, and finds out what the server speaks. Clients are imported only when chosen. */
import { RetrievalError } from '../core/errors.ts';
import type { Retriever } from '../retrieval/retriever.ts';

/**
 * `retrieve`: Search-R1's `POST /retrieve`, whose passages' ids are names of pages. `post`: DDAI's `POST [{query, id, request_idx}]`. `get`: VRAG's
 * `GET ?queries=...`.
 */
export const SEARCH_FORMS = ['retrieve', 'post', 'get'] as const;

export type SearchForm = (typeof SEARCH_FORMS)[number];

export interface OpenPageRetrieverOptions {
  /** The whole URL of the route, such as `http://127.0.0.1:8002/search`. */
  readonly url: string;
  /** @default `retrieve` for a URL that ends so; else the server is asked with `post`, then with `get` */
  readonly form?: SearchForm | null;
  /** The name of a page by the path of its picture. @default the path */
  readonly pageName?: (imageFile: string) => string;
  readonly signal?: AbortSignal;
}

/** Long enough for the first search of a server that still has to load its index. */
const ANSWER_DEADLINE_MS = 30_000;
/** Statuses of a server that has no such route, or that takes it in another form. */
const OTHER_FORM = [400, 404, 405, 422, 501];
/** As DDAI: 32 queries in one request. */
const MAX_BATCH = 32;

/**
 * Searches once, so that an unreachable server is found before any rollout is played. Throws ConfigError for an unusable URL, RetrievalError if the server
 * does not answer in a known form within 30 seconds.
 * @example const retriever = await openPageRetriever({ url: 'http://127.0.0.1:8002/search' });
 */
export async function openPageRetriever(options: OpenPageRetrieverOptions): Promise<Retriever> {
  const { url, form, signal } = options;
  if (form === 'retrieve' || (!form && lastSegment(url) === 'retrieve')) {
    const { openRetriever } = await import('./open-retriever.ts');
    return openRetriever({ retrieverUrl: url, mustAnswer: true, ...(signal && { signal }) });
  }
  const [{ PageServer }, { batched }, { cached }] = await Promise.all([
    import('../retrieval/page-server.ts'),
    import('../retrieval/batched.ts'),
    import('../retrieval/cached.ts'),
  ]);
  const common = { url, ...(options.pageName === undefined ? {} : { pageName: options.pageName }) };
  const attempt = (asked: 'post' | 'get') =>
    firstFailure(new PageServer({ ...common, form: asked, maxRetries: 0, timeoutMs: ANSWER_DEADLINE_MS, connections: 1 }), signal);
  const found = await workingForm(form ? [form] : ['post', 'get'], attempt);
  return cached(batched(new PageServer({ ...common, form: found }), { maxBatch: MAX_BATCH }));
}

function lastSegment(url: string): string {
  return URL.parse(url)?.pathname.split('/').at(-1) ?? '';
}

/** The first form in which the server answers. */
async function workingForm(
  forms: readonly ('post' | 'get')[],
  attempt: (form: 'post' | 'get') => Promise<RetrievalError | null>,
): Promise<'post' | 'get'> {
  const failures: RetrievalError[] = [];
  for (const form of forms) {
    const failure = await attempt(form);
    // A server that is busy or still loads its index exists: the run's own retries wait for it.
    if (failure === null || (failure.retryable && failure.status !== null)) return form;
    failures.push(failure);
    if (failure.status === null || !OTHER_FORM.includes(failure.status)) break;
  }
  const [cause] = failures;
  const both = failures.map(({ message }) => message).join('; ');
  throw new RetrievalError(`The search server found no pages: ${both}. Start it, correct search_url, or name its form with search_form.`, {
    cause: cause!,
  });
}

async function firstFailure(retriever: Retriever, signal: AbortSignal = new AbortController().signal): Promise<RetrievalError | null> {
  try {
    await retriever.search(['total revenue'], { topk: 1, signal });
    return null;
  } catch (error) {
    if (error instanceof RetrievalError) return error;
    throw error;
  } finally {
    await retriever.close();
  }
}
