/** Opens the retriever that a user names: a bundled corpus, a file, an index, a URL or a web engine. Engines are imported only when chosen. */
import { existsSync } from 'node:fs';
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import { ConfigError, RetrievalError } from '../core/errors.ts';
import { bundledPath, questionSets, readBundledManifest } from '../data/bundled.ts';
import { finishReplacement } from '../files/replaced-folder.ts';
import type { Passage, Retriever } from '../retrieval/retriever.ts';
import type { PassageColumns } from '../schemas/passage-row.ts';
import { isBusy } from '../transport/retry.ts';
import { withTransport } from '../transport/transport-settings.ts';
import { isEngineModule, openEngineModule } from './open-engine-module.ts';
import { openWebSearch, WEB_PROVIDERS } from './open-web-search.ts';
import { paceIn, requestsOf, type SearchPace, spaced } from './search-pace.ts';

/** Servers that hold passages of their own. */
const INDEX_SERVERS = ['qdrant', 'opensearch'] as const;

/** Engines that search an index with vectors, made by `vf-index --dense`. */
const DENSE_ENGINES = ['dense', 'hybrid'] as const;

export const RETRIEVAL_ENGINES = ['bm25', ...DENSE_ENGINES, 'http', ...INDEX_SERVERS, ...WEB_PROVIDERS] as const;

type RetrievalEngine = (typeof RETRIEVAL_ENGINES)[number];

export interface OpenRetrieverOptions extends SearchPace {
  /** The name of a bundled corpus, a file with rows of `{"id", "contents"}` (`.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet`; also packed: `.gz`, `.br`, `.zst`), or a folder made by vf-index. @default 'nq-mini' */
  readonly corpus?: string;
  /** Columns of a corpus file that have other names than the known ones: `{ text: 'body' }`. @default none */
  readonly columns?: PassageColumns;
  /** Passages in memory, searched with BM25, instead of a corpus. */
  readonly passages?: Iterable<Passage>;
  /** Name in results of a retriever over `passages`. @default 'bm25 passages' */
  readonly name?: string;
  /** The URL of a server that answers `POST /retrieve`, or of the server of `qdrant` or `opensearch`, instead of a corpus. */
  readonly retrieverUrl?: string;
  /** Sent to the server at `retrieverUrl` with every request; never logged. @default none */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * `dense` searches an index of `vf-index --dense`, `hybrid` its vectors and BM25. The path of a module, such as `./my-engine.ts`, is an engine of your own: it exports
   * `createRetriever` (`CreateRetriever` of vf-search/environment-kit). @default 'http' with a URL, else 'bm25'
   */
  readonly engine?: RetrievalEngine | (string & {});
  /** The collection of `qdrant`, the index of `opensearch`. */
  readonly collection?: string;
  /** The server that embeds queries. @default EMBEDDINGS_URL, else for `dense` and `hybrid` the server that embedded the passages */
  readonly embeddingsUrl?: string;
  /** For `dense` and `hybrid`: refuses an index of another model. For `qdrant` and `opensearch`: the model that embeds. @default the index's; none */
  readonly embeddingsModel?: string;
  /** For `qdrant` and `opensearch`: text before every query that is embedded. @default the model's own, if it is known */
  readonly queryPrefix?: string;
  /** Environment variables with the keys and addresses of web engines, as in `WebSearchOptions`. @default those of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  /** Requests one passage first, so that an unreachable server is found before any rollout is played. Waits up to 30 seconds. @default false */
  readonly mustAnswer?: boolean;
  /** Called with the number of passages indexed so far. */
  readonly onProgress?: (progress: { readonly rows: number }) => void;
}

const OPTIONS: OptionKinds<OpenRetrieverOptions> = {
  corpus: 'text',
  columns: 'textTable',
  passages: 'any',
  name: 'text',
  retrieverUrl: 'text',
  headers: 'textTable',
  engine: 'any',
  collection: 'text',
  embeddingsUrl: 'text',
  embeddingsModel: 'text',
  queryPrefix: 'text',
  env: 'table',
  signal: 'signal',
  mustAnswer: 'flag',
  onProgress: 'function',
  perSecond: 'any',
  timeoutMs: 'any',
  maxRetries: 'any',
};

const DEFAULT_CORPUS = 'nq-mini';

/** Long enough for the first search of a server that still has to load its index. */
const ANSWER_DEADLINE_MS = 30_000;

/**
 * Opens a retriever. Throws ConfigError if the options contradict each other, the corpus is unknown, or a key is missing. With `mustAnswer`, throws
 * RetrievalError if the server returns no passages; otherwise the first request to a server is the first search.
 * @example const retriever = await openRetriever({ corpus: 'nq-mini' });
 */
export async function openRetriever(options: OpenRetrieverOptions = {}): Promise<Retriever> {
  checkOptions('openRetriever', options, OPTIONS);
  const { corpus, retrieverUrl, env = process.env, signal, onProgress } = options;
  const engine = (options.engine ?? (retrieverUrl === undefined ? 'bm25' : 'http')) as RetrievalEngine;
  const isModule = isEngineModule(engine);
  if (!isModule && !RETRIEVAL_ENGINES.includes(engine))
    throw new ConfigError(
      `The engine must be one of ${RETRIEVAL_ENGINES.join(', ')}, or the path of a module, such as ./my-engine.ts, got ${JSON.stringify(engine)}`,
    );
  const isDense = (DENSE_ENGINES as readonly string[]).includes(engine);
  if (engine !== 'bm25' && !isDense && corpus !== undefined)
    throw new ConfigError(`There are two sources of passages, the corpus ${corpus} and ${engine}. Leave one out.`);
  const isServer = (INDEX_SERVERS as readonly string[]).includes(engine);
  if (engine !== 'http' && !isServer && retrieverUrl !== undefined)
    throw new ConfigError(`There are two sources of passages, a retriever URL and ${engine}. Leave one out.`);
  if (options.passages !== undefined && (engine !== 'bm25' || corpus !== undefined))
    throw new ConfigError(
      `There are two sources of passages, those in memory and ${corpus === undefined ? engine : `the corpus ${corpus}`}. Leave one out.`,
    );
  assertUsed(engine, options);
  if (engine === 'dense' || engine === 'hybrid') return openVectors(engine, options);
  if (engine === 'http') return openUrl(retrieverUrl, options);
  if (engine === 'qdrant' || engine === 'opensearch') {
    const { openIndexServer } = await import('./open-index-server.ts');
    return openIndexServer({ ...options, engine, env, ...(retrieverUrl === undefined ? {} : { url: retrieverUrl }) });
  }
  const pace = paceIn(options);
  if (isModule) return openEngineModule(engine, { env, signal, ...pace });
  if (engine !== 'bm25') return openWebSearch({ provider: engine, env, ...pace });
  const { openBm25 } = await import('../retrieval/bm25/open-bm25.ts');
  const common = { ...(signal && { signal }), ...(onProgress && { onProgress }) };
  if (options.passages !== undefined) return openBm25(options.passages, { ...common, name: options.name ?? 'bm25 passages' });
  const name = corpus ?? DEFAULT_CORPUS;
  return openBm25(await corpusPath(name), { ...common, name: `bm25 ${name}`, ...(options.columns && { columns: options.columns }) });
}

/** Engines that send no search to a server. */
const IN_PROCESS: readonly string[] = ['bm25', ...DENSE_ENGINES];

/** Throws ConfigError for an option that the engine would ignore. */
function assertUsed(engine: string, { columns = {}, passages, ...options }: OpenRetrieverOptions): void {
  if (Object.keys(columns).length > 0 && (engine !== 'bm25' || passages !== undefined))
    throw new ConfigError('Columns are named for the file of a corpus, which nothing else has. Leave them out.');
  const { collection, embeddingsUrl, embeddingsModel, queryPrefix, perSecond, timeoutMs, maxRetries } = options;
  const [paced] =
    Object.entries({ 'a rate limit': perSecond, 'a timeout': timeoutMs, retries: maxRetries }).find(([, value]) => value !== undefined) ?? [];
  if (paced !== undefined && IN_PROCESS.includes(engine))
    throw new ConfigError(
      `The engine ${engine} sends no search to a server, so it does not use ${paced}. Leave it out, or choose an engine that does.`,
    );
  const servers: readonly string[] = INDEX_SERVERS;
  const embedding = { 'an embeddings URL': embeddingsUrl, 'an embeddings model': embeddingsModel };
  const given = {
    'a collection': collection,
    'a query prefix': queryPrefix,
    ...((DENSE_ENGINES as readonly string[]).includes(engine) ? {} : embedding),
  };
  const [name] = Object.entries(given).find(([, value]) => value !== undefined) ?? [];
  if (name === undefined || servers.includes(engine)) return;
  const engines = [...(Object.hasOwn(embedding, name) ? DENSE_ENGINES : []), ...servers].join(', ');
  throw new ConfigError(`The engine ${engine} does not use ${name}. Leave it out, or use one of the engines ${engines}.`);
}

async function openVectors(engine: 'dense' | 'hybrid', { corpus, env = process.env, ...options }: OpenRetrieverOptions): Promise<Retriever> {
  if (corpus !== undefined) finishReplacement(corpus);
  if (corpus === undefined || !existsSync(corpus)) {
    const what = corpus === undefined ? 'needs an index with vectors as its corpus' : `has no index ${JSON.stringify(corpus)}`;
    throw new ConfigError(`The engine ${engine} ${what}. Make one: vf-index corpus.jsonl -o corpus.dense --dense <url> -m <model>`);
  }
  const { openDense } = await import('./open-dense.ts');
  return openDense({ ...options, engine, folder: corpus, env });
}

/** The file or folder with the passages. A bundled name takes precedence over a file of the same name; `./name` means the file. */
async function corpusPath(corpus: string): Promise<string> {
  const manifest = await readBundledManifest();
  const bundled = Object.hasOwn(manifest.datasets, corpus) ? manifest.datasets[corpus]! : { corpus: null };
  if (bundled.corpus !== null) return (await bundledPath(bundled, bundled.corpus)).path;
  finishReplacement(corpus);
  if (existsSync(corpus)) return corpus;
  const known = questionSets(manifest).toSorted().join(', ');
  const remedy = /^https?:/i.test(corpus) ? ' Pass the URL of a server as the retriever URL.' : '';
  throw new ConfigError(
    `The corpus ${JSON.stringify(corpus)} does not exist. Use one of ${known}, a .jsonl file or a folder made by vf-index.${remedy}`,
  );
}

async function openUrl(url: string | undefined, { headers = {}, mustAnswer = false, signal, ...pace }: OpenRetrieverOptions): Promise<Retriever> {
  if (url === undefined) throw new ConfigError('The engine http needs a retriever URL, for example http://127.0.0.1:8000/retrieve');
  const [{ HttpRetriever }, { batched }, { cached }] = await Promise.all([
    import('../retrieval/http-retriever.ts'),
    import('../retrieval/batched.ts'),
    import('../retrieval/cached.ts'),
  ]);
  if (mustAnswer) await assertAnswers(new HttpRetriever({ url, headers, maxRetries: 0, timeoutMs: ANSWER_DEADLINE_MS, connections: 1 }), signal);
  return cached(batched(spaced(new HttpRetriever({ url, headers, ...requestsOf(pace) }), pace)));
}

async function assertAnswers(retriever: Retriever, signal: AbortSignal = new AbortController().signal): Promise<void> {
  try {
    await withTransport({ maxWaitMs: 0 }, () => retriever.search(['who wrote hamlet'], { topk: 1, signal }));
  } catch (cause) {
    if (!(cause instanceof RetrievalError)) throw cause;
    // A server that is busy or still loads its index exists: the run's own retries wait for it.
    if (isBusy(cause)) return;
    throw new RetrievalError(`${retriever.name} returned no passages: ${cause.message}. Start the retrieval server, or correct its URL.`, {
      cause,
      ...(cause.status === null ? {} : { status: cause.status }),
    });
  } finally {
    await retriever.close();
  }
}
