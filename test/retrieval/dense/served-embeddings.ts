/** A server of `/v1/embeddings` with a model that anybody can compute: a bag of words, each at a place that its letters decide. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { loopback, readText, sendJson } from '../../transport/loopback.ts';

export const WORDS_MODEL = 'bag-of-words';
const DIM = 256;

/** The vector of a text, of any length but 0. Another `salt` makes another model. */
export function wordVector(text: string, { dim = DIM, salt = 0 } = {}): Float32Array {
  const vector = new Float32Array(dim);
  // No text is far from every other.
  vector[0] = 0.05;
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    let hash = 2166136261 ^ salt;
    for (let i = 0; i < word.length; i++) hash = Math.imul(hash ^ word.charCodeAt(i), 16777619);
    vector[1 + ((hash >>> 0) % (dim - 1))]! += 1;
  }
  return vector;
}

export interface ServedEmbeddingsOptions {
  readonly dim?: number;
  readonly salt?: number;
  readonly model?: string;
  readonly owner?: string;
  /** Answers before the server does; true if it has. */
  readonly before?: (asked: EmbeddingsRequest, response: ServerResponse, request: IncomingMessage) => boolean | Promise<boolean>;
}

interface EmbeddingsRequest {
  readonly model: string;
  readonly input: readonly string[];
  readonly encoding_format?: string;
  readonly truncate_prompt_tokens?: number;
}

export interface ServedEmbeddings extends AsyncDisposable {
  readonly url: string;
  readonly asked: EmbeddingsRequest[];
}

export async function serveEmbeddings(options: ServedEmbeddingsOptions = {}): Promise<ServedEmbeddings> {
  const { model = WORDS_MODEL, owner = 'test' } = options;
  const asked: EmbeddingsRequest[] = [];
  const server = await loopback(async (request, response) => {
    if (request.url === '/v1/models') return sendJson(response, 200, { object: 'list', data: [{ id: model, owned_by: owner }] });
    const sent = JSON.parse(await readText(request)) as EmbeddingsRequest;
    asked.push(sent);
    if (await options.before?.(sent, response, request)) return;
    const data = sent.input.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: encoded(wordVector(text, options), sent.encoding_format),
    }));
    sendJson(response, 200, { object: 'list', model, data });
  });
  return { url: server.url, asked, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

function encoded(vector: Float32Array, format: string | undefined): string | number[] {
  return format === 'base64' ? Buffer.from(vector.buffer).toString('base64') : [...vector];
}
