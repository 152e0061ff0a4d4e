/** Opens an index of `vf-index --dense` with the model that embeds its queries, for vectors only, or fused with BM25. */
import { basename, resolve } from 'node:path';
import { ConfigError, RetrievalError } from '../core/errors.ts';
import { batched } from '../retrieval/batched.ts';
import { cached } from '../retrieval/cached.ts';
import { DenseFolder } from '../retrieval/dense/dense-folder.ts';
import type { DenseManifest } from '../retrieval/dense/dense-manifest.ts';
import { DenseRetriever } from '../retrieval/dense/dense-retriever.ts';
import type { Embedder } from '../retrieval/dense/embedder.ts';
import { loadLanceLibrary } from '../retrieval/dense/lance-library.ts';
import type { Retriever } from '../retrieval/retriever.ts';
import { openEmbedder } from './open-embedder.ts';

export interface OpenDenseOptions {
  readonly engine: 'dense' | 'hybrid';
  /** Made by `vf-index --dense`. */
  readonly folder: string;
  readonly embeddingsUrl?: string;
  readonly embeddingsModel?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
}

/** Throws ConfigError if the folder is no such index, belongs to another model, or LanceDB is missing; RetrievalError if the model does not answer. */
export async function openDense({ engine, folder: path, embeddingsUrl, embeddingsModel, env, signal }: OpenDenseOptions): Promise<Retriever> {
  await loadLanceLibrary();
  const folder = new DenseFolder(resolve(path));
  const manifest = folder.manifest();
  if (embeddingsModel !== undefined && embeddingsModel !== manifest.model)
    throw new ConfigError(
      `${path} holds vectors of the model ${manifest.model}, not of ${embeddingsModel}. Name that model, or build another index.`,
    );
  if (engine === 'hybrid' && !(manifest.bm25 && folder.hasBm25))
    throw new ConfigError(`${path} has no BM25 index for the engine hybrid. Build it again without --no-bm25, or use the engine dense.`);
  const stop = signal ?? new AbortController().signal;
  await folder.checkParts(manifest, stop);
  const embedder = await openModel(manifest, { url: embeddingsUrl ?? namedServer(manifest, env), env, signal: stop });
  let dense: Retriever;
  try {
    dense = await DenseRetriever.open({ folder, manifest, embedder, name: `dense ${basename(folder.path)} (${manifest.model})`, signal: stop });
  } catch (error) {
    await embedder.close();
    throw error;
  }
  if (engine === 'dense') return cached(batched(dense));
  const [{ openBm25 }, { fused }] = await Promise.all([import('../retrieval/bm25/open-bm25.ts'), import('../retrieval/hybrid.ts')]);
  const words = await openBm25(folder.bm25, { signal: stop }).catch(async (error: unknown) => {
    await dense.close();
    throw error;
  });
  return cached(batched(fused([words, dense], { name: `hybrid ${basename(folder.path)} (BM25 and ${manifest.model})` })));
}

/** An index of the embedded engine needs no server, even if the variable names one for other indexes. */
function namedServer({ embeddings_url: url }: DenseManifest, env: OpenDenseOptions['env']): string | undefined {
  return url === null ? undefined : env['EMBEDDINGS_URL'] || undefined;
}

/** A key is sent only to a server that the user named, because the URL in a manifest may be a stranger's. */
async function openModel(
  manifest: DenseManifest,
  { url: named, env, signal }: { readonly url: string | undefined; readonly env: OpenDenseOptions['env']; readonly signal: AbortSignal },
): Promise<Embedder> {
  const url = named ?? manifest.embeddings_url;
  try {
    return await openEmbedder({ url, model: manifest.model, sendsKey: named !== undefined, env, signal });
  } catch (cause) {
    if (!(cause instanceof RetrievalError)) throw cause;
    const remedy = `Start the server, or name another that serves ${manifest.model} with embeddings_url or EMBEDDINGS_URL`;
    throw new RetrievalError(`The queries cannot be embedded: ${cause.message.replace(/\.$/, '')}. ${remedy}.`, {
      cause,
      ...(cause.status === null ? {} : { status: cause.status }),
    });
  }
}
