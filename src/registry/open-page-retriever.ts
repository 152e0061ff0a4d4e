/** Opens a retriever of document pages at the URL of a server, and finds out the server's protocol. Clients are imported only when chosen. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, RetrievalError } from '../core/errors.ts';
import type { Retriever } from '../retrieval/retriever.ts';
import { isBusy } from '../transport/retry.ts';
import { withTransport } from '../transport/transport-settings.ts';
import { paceIn, requestsOf, type SearchPace, spaced } from './search-pace.ts';
import { isOfKey } from '../retrieval/search-endpoint.ts';
import { isUsableKey } from '../retrieval/web-retriever.ts';
import type { PagePictures, VectorRetrieverOptions } from '../retrieval/vectors/vector-retriever.ts';
import { systemText } from '../files/system-text.ts';

/**
 * `retrieve`: Search-R1's `POST /retrieve`, whose passages' ids are names of pages. `post`: DDAI's `POST [{query, id, request_idx}]`. `get`: VRAG's
 * `GET ?queries=...`. `pooling`: vLLM's `POST /pooling` with a model that makes a vector of every token, ColQwen3 or ColPali; the pages are compared here.
 */
export const SEARCH_FORMS = ['retrieve', 'post', 'get', 'pooling'] as const;

export type SearchForm = (typeof SEARCH_FORMS)[number];

export interface OpenPageRetrieverOptions extends SearchPace {
  /** The whole URL of the route, such as `http://127.0.0.1:8002/search`. */
  readonly url: string;
  /** @default `retrieve` or `pooling` for a URL that ends with that word; else the server is tried with `post`, then with `get` */
  readonly form?: SearchForm | null;
  /** The name of a page by the path of its picture. @default the path */
  readonly pageName?: (imageFile: string) => string;
  /** The pages that the form `pooling` searches. */
  readonly pictures?: () => Promise<PagePictures>;
  /** The model of the form `pooling`. @default the server's only one */
  readonly model?: string | null;
  /** The folder in which the form `pooling` keeps the vectors of pictures. @default `vf-search/page-vectors` in $XDG_CACHE_HOME or `~/.cache` */
  readonly indexFolder?: string | null;
  /** Environment variables. The key in SEARCH_API_KEY is sent as `Authorization: Bearer`, unless the URL has a user name. @default those of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  /** Called while the form `pooling` makes vectors. */
  readonly onProgress?: VectorRetrieverOptions['onProgress'];
}

/** Long enough for the first search of a server that still has to load its index. */
const ANSWER_DEADLINE_MS = 30_000;
/** Statuses of a server that has no such route, or that requires another form. */
const OTHER_FORM = [400, 404, 405, 422, 501];
/** As in DDAI: 32 queries in one request. */
const MAX_BATCH = 32;

/**
 * Searches once, so that an unreachable server is found before any rollout is played; with `pooling`, makes the vectors of all pages that have none yet. Throws
 * ConfigError for an unusable URL, RetrievalError if the server does not answer in a known form within 30 seconds.
 * @example const retriever = await openPageRetriever({ url: 'http://127.0.0.1:8002/search' });
 */
export async function openPageRetriever(options: OpenPageRetrieverOptions): Promise<Retriever> {
  const { url, env = process.env } = options;
  const form = options.form ?? formOf(url);
  const headers = keyHeaders(url, env);
  try {
    return await openForm(options, form, headers);
  } catch (cause) {
    if (!(cause instanceof RetrievalError) || !isOfKey(cause)) throw cause;
    const remedy =
      'authorization' in headers ? 'The server refuses the key in SEARCH_API_KEY. Correct it' : 'The server demands a key. Set SEARCH_API_KEY';
    throw new RetrievalError(`${cause.message.replace(/\.$/, '')}. ${remedy}, in the environment or in ./.env.`, {
      cause,
      ...(cause.status === null ? {} : { status: cause.status }),
    });
  }
}

async function openForm(options: OpenPageRetrieverOptions, form: SearchForm | null, headers: Readonly<Record<string, string>>): Promise<Retriever> {
  const { url, signal } = options;
  if (form === 'retrieve') {
    const { openRetriever } = await import('./open-retriever.ts');
    return openRetriever({ retrieverUrl: url, headers, mustAnswer: true, ...(signal && { signal }), ...paceIn(options) });
  }
  const [{ batched }, { cached }] = await Promise.all([import('../retrieval/batched.ts'), import('../retrieval/cached.ts')]);
  const pace = paceIn(options);
  const [paced] = Object.keys(pace);
  if (form === 'pooling' && paced !== undefined)
    throw new ConfigError(`A search by vectors compares the pages in this process, so it does not use ${paced}. Leave it out.`);
  const retriever = form === 'pooling' ? await openVectors(options, headers) : await openServer(options, form, headers);
  return cached(batched(spaced(retriever, pace), { maxBatch: MAX_BATCH }));
}

/** Credentials in the URL come first, because a request has one authorization. */
function keyHeaders(url: string, env: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  const key = env['SEARCH_API_KEY'] ?? '';
  if (key === '' || URL.parse(url)?.username) return {};
  if (!isUsableKey(key)) throw new ConfigError('SEARCH_API_KEY must be one word of ASCII characters. Look for a stray space or line break.');
  return { authorization: `Bearer ${key}` };
}

function formOf(url: string): 'retrieve' | 'pooling' | null {
  const last = URL.parse(url)?.pathname.split('/').at(-1);
  return last === 'retrieve' || last === 'pooling' ? last : null;
}

async function openVectors(
  { url, pictures, model, indexFolder, env = process.env, signal, onProgress }: OpenPageRetrieverOptions,
  headers: Readonly<Record<string, string>>,
): Promise<Retriever> {
  if (pictures === undefined) throw new ConfigError('A search by vectors needs the pictures of the pages. Pass them as pictures.');
  const [{ PoolingEncoder }, { VectorFiles }, { VectorRetriever }] = await Promise.all([
    import('../retrieval/vectors/pooling-encoder.ts'),
    import('../retrieval/vectors/vector-files.ts'),
    import('../retrieval/vectors/vector-retriever.ts'),
  ]);
  const stop = signal ?? new AbortController().signal;
  const folder = indexFolder ?? join(env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'vf-search', 'page-vectors');
  const encoder = await PoolingEncoder.open({ url, headers, model: model ?? null, signal: stop }).catch((cause: unknown) => {
    if (!(cause instanceof RetrievalError)) throw cause;
    const remedy = 'Start vLLM with --runner pooling and a model for token_embed, or correct search_url or search_model';
    throw new RetrievalError(`The vectors of the pages cannot be made: ${cause.message.replace(/\.$/, '')}. ${remedy}.`, {
      cause,
      ...(cause.status === null ? {} : { status: cause.status }),
    });
  });
  try {
    const files = openFiles(() => new VectorFiles(folder, encoder.identity), folder);
    return await VectorRetriever.open({ encoder, files, pictures: await pictures(), signal: stop, ...(onProgress && { onProgress }) });
  } catch (error) {
    await encoder.close();
    throw error;
  }
}

function openFiles<T>(open: () => T, folder: string): T {
  try {
    return open();
  } catch (cause) {
    throw new ConfigError(`The vectors of pages cannot be kept in ${folder}: ${systemText(cause)}. Name another folder with search_index.`, {
      cause,
    });
  }
}

async function openServer(
  { url, pageName, signal, ...pace }: OpenPageRetrieverOptions,
  form: 'post' | 'get' | null,
  headers: Readonly<Record<string, string>>,
): Promise<Retriever> {
  const { PageServer } = await import('../retrieval/page-server.ts');
  const common = { url, headers, ...(pageName === undefined ? {} : { pageName }) };
  const attempt = (asked: 'post' | 'get') =>
    searchFailure(new PageServer({ ...common, form: asked, maxRetries: 0, timeoutMs: ANSWER_DEADLINE_MS, connections: 1 }), signal);
  const found = await workingForm(form === null ? ['post', 'get'] : [form], attempt);
  return new PageServer({ ...common, ...requestsOf(pace), form: found });
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
    if (failure === null || isBusy(failure)) return form;
    failures.push(failure);
    if (failure.status === null || !OTHER_FORM.includes(failure.status)) break;
  }
  const [cause] = failures;
  const texts = failures.map(({ message }) => message).join('; ');
  throw new RetrievalError(
    `The search server did not answer a first query: ${texts}. Start it, correct search_url, or name its form with search_form.`,
    { cause: cause!, ...(cause!.status === null ? {} : { status: cause!.status }) },
  );
}

async function searchFailure(retriever: Retriever, signal: AbortSignal = new AbortController().signal): Promise<RetrievalError | null> {
  try {
    await withTransport({ maxWaitMs: 0 }, () => retriever.search(['total revenue'], { topk: 1, signal }));
    return null;
  } catch (error) {
    if (error instanceof RetrievalError) return error;
    throw error;
  } finally {
    await retriever.close();
  }
}
