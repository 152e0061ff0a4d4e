/** Opens the model that embeds texts: behind the URL of a server, or in this process. Either is imported only when chosen. */
import { ConfigError } from '../core/errors.ts';
import type { Embedder } from '../retrieval/dense/embedder.ts';
import { isUsableKey } from '../retrieval/web-retriever.ts';

export interface OpenEmbedderOptions {
  /** URL of the server, its `/v1` or its `/v1/embeddings`; null for the embedded engine. */
  readonly url: string | null;
  /** The name under which the server serves the model; the model's directory for the embedded engine. */
  readonly model: string;
  /** True if the key in EMBEDDINGS_API_KEY may be sent there, which requires that the user named the URL. */
  readonly sendsKey: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Texts in one request. @default 64 */
  readonly batchSize?: number;
  /** Requests at a time. @default 4 */
  readonly concurrency?: number;
  readonly signal: AbortSignal;
}

/** Throws ConfigError for an unusable URL or key, RetrievalError if the server does not answer or does not serve the model. */
export async function openEmbedder({ url, sendsKey, env, ...options }: OpenEmbedderOptions): Promise<Embedder> {
  if (url === null) {
    const { EmbeddedEmbedder } = await import('./embedded-embedder.ts');
    return EmbeddedEmbedder.open({ model: options.model, signal: options.signal });
  }
  const key = env['EMBEDDINGS_API_KEY'] ?? '';
  if (key !== '' && !isUsableKey(key))
    throw new ConfigError('EMBEDDINGS_API_KEY must be one word of ASCII characters. Look for a stray space or line break.');
  const headers = sendsKey && key !== '' && !URL.parse(url)?.username ? { authorization: `Bearer ${key}` } : {};
  const { EmbeddingsClient } = await import('../retrieval/dense/embeddings-client.ts');
  return EmbeddingsClient.open({ ...options, url, headers });
}
