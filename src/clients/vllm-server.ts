/** One vLLM server: authenticated requests with deadlines and retries, typed errors, and whether it failed recently. */
import { onAbort } from '../core/abort.ts';
import { NumericPolicyError, PolicyError, PolicyKeyError, PromptTooLongError, TimeoutError, type VfError } from '../core/errors.ts';
import { firstNames } from '../core/first-names.ts';
import type { Random } from '../core/random.ts';
import { RefusedRequestError } from '../core/refused-request-error.ts';
import { parseVllmError, VllmModelsShape, type WireShape } from '../schemas/vllm.ts';
import { errorFields } from '../schemas/error-fields.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../transport/http-endpoint.ts';
import { Limiter } from '../core/limiter.ts';
import { pageText, refusedBy } from '../schemas/key-refusal.ts';
import { creditText, isOutOfCredit } from '../schemas/out-of-credit.ts';
import { withRetries } from '../transport/retry.ts';
import { SentImages } from './sent-images.ts';
import { parseAnswer } from './vllm-tokens-wire.ts';
import { serverRoot } from '../core/server-url.ts';

export interface VllmServerOptions {
  /** `http://host:8000/v1` or `http://host:8000`; both mean the same server. */
  readonly baseUrl: string;
  /** Sent as a bearer token. @default none */
  readonly apiKey?: string;
  /** Environment variable that holds the key, for errors. */
  readonly apiKeyVariable?: string;
  /** What the caller sets to name that variable, for errors: `-k`, `policy.api_key_var`. */
  readonly keySetting?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The engine in this process answers, which errors name. @default false: vLLM does */
  readonly isEmbedded?: boolean;
  /** Deadline of one attempt, in milliseconds. @default 600000 */
  readonly timeoutMs?: number;
  /** Attempts after the first. @default 3 */
  readonly maxRetries?: number;
  /** The longest wait for a server that limits the rate of requests, in milliseconds; 0 fails at once. @default that of the run, else 3600000 */
  readonly maxWaitMs?: number;
  /** Source of the jitter between attempts. */
  readonly random: Random;
  /** Delay before the first retry, in milliseconds; doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Other servers serve the same model, so a rollout that fails here may succeed there. @default false */
  readonly hasReplicas?: boolean;
  /** Concurrent completions, at least 1; further ones wait in this process. @default 256, vLLM's own default for --max-num-seqs on most GPUs */
  readonly maxConcurrentRequests?: number;
}

export interface VllmCall<T> {
  readonly path: string;
  /** @default none, which makes it a GET */
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Reads the body of a 200. The call is retried if it throws a retryable error. */
  readonly read: (body: Buffer) => T;
  readonly signal: AbortSignal;
  /** Tells whether to repeat the request here after this failure. @default always */
  readonly mayRetry?: (error: VfError) => boolean;
  /** Called at once when an attempt ends without an answer although the server may still compute it. */
  readonly onAbandoned?: () => void;
}

/** After a request has failed all its retries, new trajectories avoid the server for this long. */
const REST_MS = 15_000;

export class VllmServer {
  /** Without `/v1`, without secrets. */
  readonly url: string;
  /** Number of trajectories on this server now. */
  leases = 0;
  readonly generations: Limiter;
  /** The images that this server has. */
  readonly images = new SentImages();
  readonly #endpoint: HttpEndpoint;
  readonly #options: VllmServerOptions;
  #failedAtMs: number | null = null;

  constructor(options: VllmServerOptions) {
    const { apiKey, headers = {}, maxConcurrentRequests = 256 } = options;
    this.#options = options;
    this.generations = new Limiter(maxConcurrentRequests);
    this.#endpoint = new HttpEndpoint({
      baseUrl: serverRoot(options.baseUrl),
      headers: apiKey === undefined || apiKey === '' ? headers : { authorization: `Bearer ${apiKey}`, ...headers },
      // Tokenisation must not wait for completions, so it has spare connections.
      connections: Math.min(maxConcurrentRequests, 4096) + 16,
      makeError: (message, errorOptions) => new PolicyError(`${message}; check that the server runs and the URL is right`, errorOptions),
    });
    this.url = this.#endpoint.url;
  }

  /** Milliseconds since a request last failed all its retries; Infinity if none has, or one has succeeded since. */
  get failedMsAgo(): number {
    return this.#failedAtMs === null ? Infinity : Date.now() - this.#failedAtMs;
  }

  /** True for a while after a failure. */
  get isResting(): boolean {
    return this.failedMsAgo < REST_MS;
  }

  /** Resolves with the result of `read` on a 200. Rejects with PromptTooLongError, NumericPolicyError, PolicyError, TimeoutError or CancelledError. */
  async call<T>({ path, body, headers = {}, read, signal, mayRetry, onAbandoned = () => {} }: VllmCall<T>): Promise<T> {
    const { timeoutMs = 600_000, maxRetries = 3, random, baseDelayMs, maxWaitMs } = this.#options;
    const method = body === undefined ? 'GET' : 'POST';
    const attempt = async (attemptSignal: AbortSignal) => {
      using _ = onAbort(attemptSignal, onAbandoned);
      const request = { method, path, headers, signal: attemptSignal, ...(body === undefined ? {} : { body }) } as const;
      const response = await this.#endpoint.request(request).catch((error: unknown) => {
        if (!attemptSignal.aborted && !isRefused(error)) onAbandoned();
        throw error;
      });
      if (response.status !== 200) throw await this.#failure(method, path, response, attemptSignal);
      return read(response.body);
    };
    const optional = {
      ...(baseDelayMs !== undefined && { baseDelayMs }),
      ...(mayRetry && { mayRetry }),
      ...(maxWaitMs !== undefined && { maxWaitMs }),
    };
    try {
      const result = await withRetries(attempt, { signal, timeoutMs, maxRetries, random, rateLimit: this.#endpoint.rateLimit, ...optional });
      this.#failedAtMs = null;
      return result;
    } catch (error) {
      if (error instanceof TimeoutError || (error instanceof PolicyError && (error.retryable || error instanceof NumericPolicyError))) {
        this.#failedAtMs = Date.now();
      }
      if (error instanceof PolicyError && this.#options.hasReplicas === true) error.isRetriedOut = false;
      throw error;
    }
  }

  /** Sends `fields` as JSON and checks the shape of the response. */
  post<T>(path: string, fields: Readonly<Record<string, unknown>>, shape: WireShape<T>, signal: AbortSignal): Promise<T> {
    const read = (answer: Buffer) => parseAnswer(answer.toString('utf8'), shape, this.where(path));
    return this.call({ path, body: JSON.stringify(fields), read, signal });
  }

  /** Reads a JSON document and checks its shape. */
  get<T>(path: string, shape: WireShape<T>, signal: AbortSignal): Promise<T> {
    const read = (answer: Buffer) => parseAnswer(answer.toString('utf8'), shape, this.where(path));
    return this.call({ path, read, signal });
  }

  /** The models served now; `parent` is the base of an adapter. */
  async models(
    signal: AbortSignal,
  ): Promise<readonly { readonly id: string; readonly parent: string | null; readonly maxModelLen: number | null }[]> {
    const { data } = await this.get('/v1/models', VllmModelsShape, signal);
    return data.map(({ id, parent = null, max_model_len: maxModelLen = null }) => ({ id, parent, maxModelLen }));
  }

  where(path: string): string {
    return `${this.url}${path}`;
  }

  async close(): Promise<void> {
    await this.#endpoint.close();
  }

  #keyRemedy(): string {
    const { apiKey = '', apiKeyVariable, keySetting, headers = {} } = this.#options;
    if (Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) return 'Check the authorization header';
    if (apiKey === '') return keySetting === undefined ? 'Pass a key' : `Set ${keySetting} to the name of the variable that holds the key`;
    return apiKeyVariable === undefined ? 'Check the key' : `Check the key in ${apiKeyVariable}`;
  }

  async #failure(method: string, path: string, response: HttpResponse, signal: AbortSignal): Promise<VfError> {
    const failure = httpErrorText(method, this.where(path), response.status, response.body, this.#endpoint.hide);
    const error = vllmError(failure, response, {
      keyRemedy: this.#keyRemedy(),
      hide: this.#endpoint.hide,
      isEmbedded: this.#options.isEmbedded ?? false,
    });
    if (error.status !== 404 || parseVllmError(response.body.toString('utf8'))?.param !== 'model') return error;
    const names = await this.models(signal).then(
      (models) =>
        firstNames(
          models.map(({ id }) => id.slice(0, 200)),
          20,
        ),
      () => 'unknown, because it does not list them',
    );
    return new PolicyError(`The server does not have this model: ${failure}. Models it serves: ${names}`, { status: 404, endsRun: true });
  }
}

/** The typed error for a status other than 200. `failure`: request, status and the beginning of the body. */
function vllmError(
  failure: string,
  response: HttpResponse,
  { keyRemedy, hide, isEmbedded }: { readonly keyRemedy: string; readonly hide: (text: string) => string; readonly isEmbedded: boolean },
): PolicyError {
  const { status } = response;
  const { message = '', param = null } = parseVllmError(response.body.toString('utf8')) ?? {};
  if (/out of range float values/i.test(message)) {
    return new NumericPolicyError(`The server computed NaN: ${failure}. Unload the last adapter and reset the prefix cache, or restart the server.`, {
      status,
    });
  }
  if (
    status === 400 &&
    (param === 'input_tokens' ||
      /maximum context length|longer than the maximum model length|max_tokens must be at least 1, got (0|-\d+)\b/i.test(message))
  ) {
    return new PromptTooLongError(`The prompt leaves no room in the model's window: ${failure}`, { status });
  }
  if (status === 400 && /failed to load image/i.test(message))
    return new PolicyError(
      `The server cannot decode an image of the prompt: ${failure}. Check that the environment shows whole PNG, JPEG or WebP files.`,
      { status },
    );
  if (status !== 401 && isOutOfCredit(status, errorFields(response.body))) return new PolicyError(creditText(failure), { status, endsRun: true });
  const refused = refusedBy(status, response.body);
  if (refused === 'page') return new PolicyError(pageText(failure), { status, endsRun: true });
  if (refused === 'other')
    return new PolicyError(`The server, or a proxy before it, does not allow the request: ${failure}`, { status, endsRun: true });
  if (refused === 'key') return new PolicyKeyError(`The server rejected the API key: ${failure}. ${keyRemedy}.`, { status, endsRun: true });
  if (status === 404 || status === 405) return new PolicyError(`This is not a vLLM server: ${failure}. Check the URL.`, { status });
  const options = statusOptions(response);
  const server = isEmbedded ? 'The embedded engine' : 'vLLM';
  if (status !== 400 || message === '') return new PolicyError(`${server} failed: ${failure}`, options);
  return new RefusedRequestError(`${server} refused the request: ${failure}`, { ...options, param, reason: hide(message).slice(0, 2000) });
}

/** The connection was refused, so the server has no such request. */
function isRefused(error: unknown): boolean {
  return error instanceof PolicyError && (error.cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNREFUSED';
}

/** True if the failure says that the server is down, broken or without the model, so that another replica should be asked. */
export function isDown(error: unknown): boolean {
  if (error instanceof TimeoutError || error instanceof NumericPolicyError) return true;
  if (!(error instanceof PolicyError)) return false;
  const isBusy = error.status !== null && [408, 409, 425, 429].includes(error.status);
  return (error.retryable && !isBusy) || isModelGone(error);
}

/** True if the account of this server is out of credit: one of several replicas may have an account of its own. */
export function isSpent(error: unknown): boolean {
  return error instanceof PolicyError && error.endsRun && (error.status === 402 || error.status === 429);
}

/** The server does not have the model: it was restarted without its adapters. */
function isModelGone(error: PolicyError): boolean {
  return error.status === 404 && error.endsRun;
}
