/**
 * vLLM's `/pooling` and `/v1/models` in the shapes recorded in test/golden/vllm/pooling.json, over a model that can be understood: every word has a direction of
 * its own, and a picture shows the words that its bytes spell.
 */
import { type Loopback, loopback, readText, sendJson } from '../../transport/loopback.ts';

const DIM = 512;
const LONGEST = 256;

interface PoolingRequest {
  readonly model: string;
  readonly input?: readonly string[];
  readonly messages?: readonly { readonly content: readonly { readonly image_url?: { readonly url: string } }[] }[];
  readonly embed_dtype: 'float16' | 'float32';
}

export async function servePooling({ models = ['words'] } = {}): Promise<Loopback & { readonly pictures: () => number }> {
  const directions = new Map<string, number>();
  let pictures = 0;
  const vectorsOf = (text: string, type: PoolingRequest['embed_dtype']) => {
    const words = (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ['?']).slice(0, LONGEST);
    const values = type === 'float16' ? new Float16Array(words.length * DIM) : new Float32Array(words.length * DIM);
    for (const [i, word] of words.entries()) {
      if (!directions.has(word)) directions.set(word, directions.size);
      values[i * DIM + directions.get(word)!] = 1;
    }
    return { rows: words.length, bytes: Buffer.from(values.buffer) };
  };
  const server = await loopback(async (request, response) => {
    if (request.url === '/v1/models') return sendJson(response, 200, { object: 'list', data: models.map((id) => ({ id, root: `/models/${id}` })) });
    if (request.url !== '/pooling') return sendJson(response, 404, { detail: 'Not Found' });
    const { model, input, messages, embed_dtype: type } = JSON.parse(await readText(request)) as PoolingRequest;
    if (!models.includes(model)) return sendJson(response, 404, { error: { message: `The model \`${model}\` does not exist.` } });
    if (messages !== undefined) pictures += 1;
    const shown = messages?.[0]!.content.flatMap(({ image_url: image }) =>
      image === undefined ? [] : [image.url.replace(/^data:image\/png;base64,/, '')],
    );
    const lists = (input ?? shown!.map((base64) => Buffer.from(base64, 'base64').toString('utf8'))).map((text) => vectorsOf(text, type));
    let end = 0;
    const data = lists.map(({ rows, bytes }, index) => ({
      index,
      embed_dtype: type,
      endianness: 'little',
      start: end,
      end: (end += bytes.length),
      shape: [rows, DIM],
    }));
    response.writeHead(200, { 'content-type': 'application/octet-stream', metadata: JSON.stringify({ id: 'pooling-1', model, data }) });
    response.end(Buffer.concat(lists.map(({ bytes }) => bytes)));
  });
  return { ...server, pictures: () => pictures };
}
