/** Opens a collection of Qdrant or an index of OpenSearch, with the model that embeds the queries. Engines are imported only when chosen. */
import { ConfigError } from '../core/errors.ts';
import { batched } from '../retrieval/batched.ts';
import { cached } from '../retrieval/cached.ts';
import type { Embedder } from '../retrieval/dense/embedder.ts';
import { knownPrefixes } from '../retrieval/dense/embedding-prefixes.ts';
import type { Retriever } from '../retrieval/retriever.ts';
import { openEmbedder } from './open-embedder.ts';
import { requestsOf, type SearchPace, spaced } from './search-pace.ts';

export interface OpenIndexServerOptions extends SearchPace {
  readonly engine: 'qdrant' | 'opensearch';
  /** URL of the server. */
  readonly url?: string;
  /** The collection of Qdrant, the index of OpenSearch. */
  readonly collection?: string;
  readonly embeddingsUrl?: string;
  readonly embeddingsModel?: string;
  /** @default the model's own */
  readonly queryPrefix?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  /** Searches once, so that a wrong URL or collection is found before any rollout is played. */
  readonly mustAnswer?: boolean;
}

/** Throws ConfigError if an option is missing, RetrievalError if a server does not answer. */
export async function openIndexServer(options: OpenIndexServerOptions): Promise<Retriever> {
  const { engine, collection, embeddingsModel: model, queryPrefix, signal = new AbortController().signal, mustAnswer = false } = options;
  const [variable, example] = engine === 'qdrant' ? ['QDRANT_URL', 'http://127.0.0.1:6333'] : ['OPENSEARCH_URL', 'http://127.0.0.1:9200'];
  const url = options.url ?? (options.env[variable] || undefined);
  if (url === undefined)
    throw new ConfigError(`The engine ${engine} needs the URL of its server, for example ${example}, as the retriever URL or in ${variable}`);
  if (collection === undefined)
    throw new ConfigError(`The engine ${engine} needs the name of a collection (of OpenSearch: an index). Set collection.`);
  const embedder = await openQueryEmbedder(options, signal);
  const prefix = queryPrefix ?? (model === undefined ? '' : (knownPrefixes(model)?.query ?? ''));
  let retriever: Retriever;
  try {
    retriever = await openServer({ ...options, url, collection, embedder, prefix });
  } catch (error) {
    await embedder?.close();
    throw error;
  }
  try {
    if (mustAnswer) await retriever.search(['who wrote hamlet'], { topk: 1, signal });
  } catch (error) {
    await retriever.close();
    throw error;
  }
  return cached(batched(spaced(retriever, options)));
}

interface OpenServerOptions extends OpenIndexServerOptions {
  readonly url: string;
  readonly collection: string;
  readonly embedder: Embedder | null;
  readonly prefix: string;
}

async function openServer({ engine, url, collection, embedder, prefix, env, ...pace }: OpenServerOptions): Promise<Retriever> {
  const requests = requestsOf(pace);
  if (engine === 'qdrant') {
    const { QdrantRetriever } = await import('../retrieval/qdrant.ts');
    const apiKey = env['QDRANT_API_KEY'] || undefined;
    return new QdrantRetriever({
      ...requests,
      url,
      collection,
      embedder: embedder!,
      queryPrefix: prefix,
      ...(apiKey === undefined ? {} : { apiKey }),
    });
  }
  const { OpenSearchRetriever } = await import('../retrieval/opensearch.ts');
  const words = new OpenSearchRetriever({ ...requests, url, index: collection });
  if (embedder === null) return words;
  const { fused } = await import('../retrieval/hybrid.ts');
  const vectors = new OpenSearchRetriever({ ...requests, url, index: collection, embedder, queryPrefix: prefix });
  return fused([words, vectors], { name: `hybrid ${vectors.name}` });
}

/** Qdrant searches only by vectors; OpenSearch by words, and by vectors too if a model is named. */
async function openQueryEmbedder(
  { engine, embeddingsUrl, embeddingsModel: model, env }: OpenIndexServerOptions,
  signal: AbortSignal,
): Promise<Embedder | null> {
  const url = embeddingsUrl ?? (env['EMBEDDINGS_URL'] || undefined);
  if (model === undefined && engine === 'opensearch') {
    if (embeddingsUrl !== undefined) throw new ConfigError('embeddings_url needs the name of the model. Set embeddings_model.');
    return null;
  }
  if (model === undefined || url === undefined)
    throw new ConfigError(
      `The engine ${engine} needs the model that embedded the collection and a server of it. Set embeddings_model, and embeddings_url or EMBEDDINGS_URL.`,
    );
  return openEmbedder({ url, model, sendsKey: true, env, signal });
}
