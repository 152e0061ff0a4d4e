/**
 * A client of any OpenAI-compatible `POST /v1/embeddings`: vLLM, TEI, llama.cpp, hosted APIs. Asks for base64, which is a quarter of the JSON, and takes lists of
 * numbers too. vLLM cuts texts beyond the model's window; other servers decide themselves. Vectors are scaled to length 1, since not every server does so.
 */
import { RetrievalError } from '../../core/errors.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { parseAnswer, type ParsedAnswer } from '../parsed-answer.ts';
import { SearchEndpoint, type SearchEndpointOptions } from '../search-endpoint.ts';
import { serverRoute } from '../server-route.ts';
import { type Embedder, normalize } from './embedder.ts';

export interface EmbeddingsClientOptions extends SearchEndpointOptions {
  /** The name under which the server serves the model. */
  readonly model: string;
  /** Texts in one request. @default 64 */
  readonly batchSize?: number;
  /** Requests at a time. @default 4 */
  readonly concurrency?: number;
}

/** Statuses of a server without a list of models, or with one for other keys. */
const NO_LIST = [401, 403, 404, 405, 501];
/** Statuses of a server that refuses a field. */
const REFUSED = [400, 422];
/** Models in a message. */
const MOST_NAMED = 5;

export class EmbeddingsClient implements Embedder {
  readonly name: string;
  readonly model: string;
  readonly batchSize: number;
  readonly concurrency: number;
  readonly #endpoint: SearchEndpoint;
  readonly #isVllm: boolean;
  #format: 'base64' | 'float' = 'base64';
  #dim: number | null = null;

  private constructor(options: EmbeddingsClientOptions, isVllm: boolean) {
    const { model, batchSize = 64, concurrency = 4 } = options;
    this.#endpoint = new SearchEndpoint({ ...options, url: serverRoute(options.url, 'v1/embeddings') }, { path: '/v1/embeddings' });
    this.name = `${model} (${this.#endpoint.name})`;
    this.model = model;
    this.batchSize = batchSize;
    this.concurrency = concurrency;
    this.#isVllm = isVllm;
  }

  /**
   * Asks the server for its models first, so that a wrong URL or name is found at once. `url`: of the server, its `/v1` or its `/v1/embeddings`. Throws ConfigError
   * for an unusable URL, RetrievalError if the server does not answer or does not serve the model.
   */
  static async open(options: EmbeddingsClientOptions & { readonly signal: AbortSignal }): Promise<EmbeddingsClient> {
    const { model, signal } = options;
    const models = new SearchEndpoint({ ...options, url: serverRoute(options.url, 'v1/models'), maxRetries: 0 }, { path: '/models' });
    try {
      const served = await models
        .ask({ query: '' }, ({ body }) => parseAnswer(body, servedModels), signal)
        .catch((error: unknown) => {
          if (error instanceof RetrievalError && error.status !== null && NO_LIST.includes(error.status)) return null;
          throw error;
        });
      const found = served?.find(({ id, root }) => id === model || root === model);
      if (served !== null && found === undefined)
        throw new RetrievalError(`${models.name} does not serve the model ${JSON.stringify(model)}, but ${namesOf(served)}. Name one of these.`);
      // A server may serve a model under a name other than that of its weights.
      return new EmbeddingsClient({ ...options, model: found?.id ?? model }, found?.owner === 'vllm');
    } finally {
      await models.close();
    }
  }

  async embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    const batches = Array.from({ length: Math.ceil(texts.length / this.batchSize) }, (_, b) => {
      return texts.slice(b * this.batchSize, (b + 1) * this.batchSize);
    });
    const lists: (readonly Float32Array[])[] = [];
    // One after the other: the caller decides how many calls run at a time.
    for (const batch of batches) lists.push(await this.#ask(batch, signal));
    return lists.flat();
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #ask(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    const format = this.#format;
    try {
      return await this.#request(texts, format, signal);
    } catch (error) {
      const isRefused = error instanceof RetrievalError && error.status !== null && REFUSED.includes(error.status);
      if (format === 'float' || !isRefused || !/encoding.?format|base64/i.test(error.message)) throw error;
      this.#format = 'float';
      return this.#request(texts, 'float', signal);
    }
  }

  async #request(texts: readonly string[], format: 'base64' | 'float', signal: AbortSignal): Promise<readonly Float32Array[]> {
    const body = JSON.stringify({
      model: this.model,
      // Servers refuse an empty text.
      input: texts.map((text) => (text === '' ? ' ' : text.toWellFormed())),
      encoding_format: format,
      ...(this.#isVllm ? { truncate_prompt_tokens: -1 } : {}),
    });
    const vectors = await this.#endpoint.ask({ body }, (response) => parseEmbeddings(response.body, texts.length), signal);
    this.#dim ??= vectors[0]!.length;
    if (vectors[0]!.length !== this.#dim)
      throw new RetrievalError(
        `${this.name} made vectors of ${vectors[0]!.length} numbers now and of ${this.#dim} before. Use one model throughout.`,
      );
    return vectors;
  }
}

/** Reads an answer's vectors in the order of the request and scales them to length 1. */
export function parseEmbeddings(body: Buffer, count: number): ParsedAnswer<readonly Float32Array[]> {
  return parseAnswer(body, (json) => readVectors(json, count));
}

function readVectors(json: unknown, count: number): Float32Array[] | string {
  const { data } = fieldsOf(json);
  if (!Array.isArray(data)) return 'expected {"data": [{"index", "embedding"}]}';
  if (data.length !== count) return `expected ${count} vectors, got ${data.length}`;
  const vectors = Array.from<Float32Array | undefined>({ length: count });
  for (const [place, item] of data.entries()) {
    const { embedding, index = place } = fieldsOf(item);
    if (!Number.isInteger(index) || (index as number) < 0 || (index as number) >= count || vectors[index as number] !== undefined)
      return `expected every index from 0 to ${count - 1} once, got ${JSON.stringify(index)?.slice(0, 50)}`;
    const vector = vectorOf(embedding);
    if (vector === null) return `expected data[${place}].embedding to be a list of numbers, or base64 of float32`;
    const problem = normalize(vector);
    if (problem !== null) return `the vector of text ${String(index)} ${problem}; the model or the text is at fault`;
    vectors[index as number] = vector;
  }
  const [first] = vectors as Float32Array[];
  return (vectors as Float32Array[]).every(({ length }) => length === first!.length)
    ? (vectors as Float32Array[])
    : 'its vectors have different lengths';
}

function vectorOf(embedding: unknown): Float32Array | null {
  if (typeof embedding === 'string') {
    const bytes = Buffer.from(embedding, 'base64');
    if (bytes.length === 0 || bytes.length % 4 !== 0) return null;
    return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
  }
  if (!Array.isArray(embedding) || embedding.length === 0) return null;
  // JSON has no NaN; Python's servers write null or NaN in its place.
  return embedding.every((value) => typeof value === 'number') ? Float32Array.from(embedding) : null;
}

interface ServedModel {
  readonly id: string;
  /** Path or name of the weights; null if the server does not say. */
  readonly root: string | null;
  readonly owner: string | null;
}

function servedModels(json: unknown): ServedModel[] | string {
  const { data } = fieldsOf(json);
  if (!Array.isArray(data)) return 'expected {"data": [{"id"}]}';
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  const models = data
    .map((item: unknown) => fieldsOf(item))
    .map(({ id, root, owned_by: owner }) => ({ id: text(id), root: text(root), owner: text(owner) }));
  return models.every((model): model is ServedModel => model.id !== null) ? models : 'expected {"data": [{"id"}]}';
}

function namesOf(models: readonly ServedModel[]): string {
  const names = models.slice(0, MOST_NAMED).map(({ id }) => id.slice(0, 200));
  return names.length === 0 ? 'no model' : `${names.join(', ')}${models.length > MOST_NAMED ? ', ...' : ''}`;
}
