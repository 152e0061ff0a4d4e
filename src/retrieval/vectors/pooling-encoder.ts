/**
 * ColQwen3, ColPali and other late-interaction models behind vLLM's `POST /pooling` (0.32, task `token_embed`). The answer's bytes are the vectors; its header
 * `metadata` says where each begins. Pictures are sent as data URLs, because a server would fetch any other URL.
 */
import { RetrievalError } from '../../core/errors.ts';
import { readJson } from '../../core/read-json.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import type { HttpResponse } from '../../transport/http-endpoint.ts';
import { parseAnswer, type ParsedAnswer } from '../parsed-answer.ts';
import { SearchEndpoint, type SearchEndpointOptions } from '../search-endpoint.ts';
import { serverRoute } from '../server-route.ts';
import { type TokenVectors, VECTOR_BYTES, vectorsFrom, type VectorType } from './token-vectors.ts';
import type { Picture, VectorEncoder } from './vector-encoder.ts';

export interface PoolingEncoderOptions extends SearchEndpointOptions {
  /** The name under which the server serves the model. @default its only one */
  readonly model?: string | null;
  /** Numbers on the wire and on disk. @default 'float16' */
  readonly type?: VectorType;
  readonly signal: AbortSignal;
}

/** The text that ColPali and ColQwen3 were trained to read with a picture. */
const BESIDE_PICTURE = 'Describe the image.';

const LONGEST_ID = 200;
/** Models in a message. */
const MOST_NAMED = 5;

export class PoolingEncoder implements VectorEncoder {
  readonly name: string;
  readonly identity: string;
  readonly #endpoint: SearchEndpoint;
  readonly #model: string;
  readonly #type: VectorType;

  private constructor(endpoint: SearchEndpoint, { id, root }: ServedModel, type: VectorType) {
    this.name = `${id} (${endpoint.name})`;
    this.identity = JSON.stringify({ model: id, root, type });
    this.#endpoint = endpoint;
    this.#model = id;
    this.#type = type;
  }

  /**
   * Asks the server for its models. `url`: of the server or of its `/pooling`. Throws ConfigError for an unusable URL, RetrievalError if the server does not
   * answer or does not serve the model.
   */
  static async open({ model = null, type = 'float16', signal, ...options }: PoolingEncoderOptions): Promise<PoolingEncoder> {
    const models = new SearchEndpoint({ ...options, url: serverRoute(options.url, 'v1/models'), maxRetries: 0 }, { path: '/models' });
    try {
      const served = await models.ask({ query: '' }, ({ body }) => parseAnswer(body, servedModels), signal);
      const found = model === null ? served.length === 1 && served[0]! : served.find(({ id }) => id === model);
      if (found)
        return new PoolingEncoder(
          new SearchEndpoint({ ...options, isBinary: true, url: serverRoute(options.url, 'pooling') }, { path: '/pooling' }),
          found,
          type,
        );
      const names = served.length > MOST_NAMED ? `${namesOf(served.slice(0, MOST_NAMED))}, ...` : namesOf(served);
      throw new RetrievalError(
        model === null
          ? `${models.name} serves ${served.length} models (${names}). Name the one that makes the vectors.`
          : `${models.name} does not serve the model ${JSON.stringify(model)}, but ${names}. Name one of these.`,
      );
    } finally {
      await models.close();
    }
  }

  encodeTexts(texts: readonly string[], signal: AbortSignal): Promise<readonly TokenVectors[]> {
    // A text beyond the context window is cut.
    return this.#ask({ input: texts, truncate_prompt_tokens: -1 }, texts.length, signal);
  }

  async encodePicture({ bytes, mediaType }: Picture, signal: AbortSignal): Promise<TokenVectors> {
    const url = `data:${mediaType};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`;
    const content = [
      { type: 'image_url', image_url: { url } },
      { type: 'text', text: BESIDE_PICTURE },
    ];
    const [vectors] = await this.#ask({ messages: [{ role: 'user', content }] }, 1, signal);
    return vectors!;
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  #ask(asked: object, count: number, signal: AbortSignal): Promise<readonly TokenVectors[]> {
    const format = { encoding_format: 'bytes', embed_dtype: this.#type, endianness: 'little' };
    const body = JSON.stringify({ model: this.#model, task: 'token_embed', ...asked, ...format });
    return this.#endpoint.ask({ body }, (response) => parseVectors(response, count, this.#type), signal);
  }
}

/** Reads the vectors of an answer with `encoding_format: bytes`, in the order of the request. */
export function parseVectors({ headers, body }: HttpResponse, count: number, type: VectorType): ParsedAnswer<readonly TokenVectors[]> {
  const wrong = (problem: string) => ({ ok: false, problem, isJson: true }) as const;
  const items = itemsOf(headers['metadata'], count);
  if (items === null) return wrong(`expected a header "metadata" with the places of ${count} lists of vectors, as vLLM's /pooling sends it`);
  const lists: TokenVectors[] = [];
  for (const [i, { start, end, shape, embed_dtype: found }] of items.entries()) {
    const [rows, dim] = Array.isArray(shape) && shape.length === 2 ? (shape as [unknown, unknown]) : [0, 0];
    if (!isCount(rows) || !isCount(dim))
      return wrong(
        `expected vectors of tokens, but the shape of item ${i} is ${JSON.stringify(shape)?.slice(0, 50)}; is it a model for token_embed?`,
      );
    const isPlaced = Number.isInteger(start) && (start as number) >= 0 && end === (start as number) + rows * dim * VECTOR_BYTES[type];
    if (!isPlaced || found !== type) return wrong(`expected the vectors of item ${i} as ${type}`);
    if (end > body.length) return { ok: false, problem: `the vectors end after ${body.length} bytes`, isJson: false };
    const vectors = vectorsFrom(body.subarray(start as number, end), { rows, dim, type });
    if (vectors === null) return wrong(`the vectors of item ${i} hold a number that is not finite`);
    lists.push(vectors);
  }
  return lists.every(({ dim }) => dim === lists[0]!.dim) ? { ok: true, value: lists } : wrong('its vectors have different lengths');
}

function itemsOf(header: string | string[] | undefined, count: number): Readonly<Record<string, unknown>>[] | null {
  if (typeof header !== 'string') return null;
  let data: unknown;
  try {
    ({ data } = fieldsOf(readJson(header)));
  } catch {
    return null;
  }
  if (!Array.isArray(data) || data.length !== count) return null;
  const items = new Map(data.filter(isObject).map((item) => [item['index'], item]));
  const inOrder = Array.from({ length: count }, (_, i) => items.get(i));
  return inOrder.every((item) => item !== undefined) ? inOrder : null;
}

interface ServedModel {
  readonly id: string;
  /** Path or name of the weights; null if the server does not say. */
  readonly root: string | null;
}

function servedModels(json: unknown): ServedModel[] | string {
  const { data } = fieldsOf(json);
  const wrong = `expected {"data": [{"id": a name of at most ${LONGEST_ID} characters}]}`;
  if (!Array.isArray(data)) return wrong;
  const models = data.map((item: unknown) => fieldsOf(item)).map(({ id, root }) => ({ id, root: typeof root === 'string' ? root : null }));
  return models.every((model): model is ServedModel => typeof model.id === 'string' && model.id.length <= LONGEST_ID) ? models : wrong;
}

function namesOf(models: readonly ServedModel[]): string {
  return models.map(({ id }) => id).join(', ');
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
