/** Our own retrieval server on a free port, over any retriever. */
import type { Retriever } from '../../src/retrieval/retriever.ts';
import { listen } from '../../src/server/listen.ts';
import { retrievalApp, type RetrievalAppOptions } from '../../src/server/retrieval-app.ts';

export async function serve(
  retriever: Retriever,
  options: Omit<RetrievalAppOptions, 'retriever'> = {},
): Promise<AsyncDisposable & { readonly url: string; readonly origin: string }> {
  const server = await listen(retrievalApp({ retriever, ...options }), { host: '127.0.0.1', port: 0 });
  return { origin: server.url, url: `${server.url}/retrieve`, [Symbol.asyncDispose]: () => server.close({ graceMs: 0 }) };
}
