/** A server that finds pages, over any retriever, in the shapes of DDAI (`post`) and VRAG (`get`): paths of image files. */
import type { Retriever } from '../../src/retrieval/retriever.ts';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

export async function servePages(retriever: Retriever, form: 'post' | 'get', { topk = 10 } = {}): Promise<Loopback> {
  const signal = new AbortController().signal;
  const find = async (queries: readonly string[]) =>
    (await retriever.search(queries, { topk, signal })).map((list) => list.map(({ id }, idx) => ({ idx, image_file: `./corpus/img/${id}.jpg` })));
  const server = await loopback(async (request, response) => {
    // FastAPI answers another method than that of the route with 405.
    if (request.method !== form.toUpperCase()) return sendJson(response, 405, { detail: 'Method Not Allowed' });
    if (form === 'get') return sendJson(response, 200, await find(new URL(request.url!, 'http://x').searchParams.getAll('queries')));
    const asked = JSON.parse(await readText(request)) as { query: string; request_idx: number }[];
    const lists = await find(asked.map(({ query }) => query));
    sendJson(
      response,
      200,
      asked.map(({ request_idx }, i) => ({ request_idx, results: lists[i] })),
    );
  });
  return { ...server, url: `${server.url}/search` };
}
