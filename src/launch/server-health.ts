/** Checks whether one vLLM server answers, and which models it serves. */
import { CancelledError, PolicyError, PolicyKeyError, type VfError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { timerMs } from '../core/timers.ts';
import { parseVllmError, VllmModelsShape } from '../schemas/vllm.ts';
import { errorFields } from '../schemas/error-fields.ts';
import { creditText, isOutOfCredit } from '../schemas/out-of-credit.ts';
import { pageText, refusedBy } from '../schemas/key-refusal.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../transport/http-endpoint.ts';
import { withRetries } from '../transport/retry.ts';
import { serverRoot } from '../core/server-url.ts';

export interface ServerHealthOptions {
  /** With or without `/v1` at the end. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface WaitOptions {
  readonly signal: AbortSignal;
  /** Limit for all attempts together, from the call on. */
  readonly deadlineMs: number;
  /** Longest pause between attempts. @default 8000 */
  readonly maxDelayMs?: number;
  /** 0 returns the first failure at once instead of waiting for a server that may be starting. @default Infinity */
  readonly maxRetries?: number;
  readonly onRetry?: (why: VfError) => void;
  /** Retries after a 404 that is not vLLM's: a proxy sends it while the server behind it restarts. @default false */
  readonly isBehindProxy?: boolean;
}

/** A healthy server answers in milliseconds; one under full load within seconds. */
const ATTEMPT_MS = 10_000;

export class ServerHealth {
  /** Without `/v1`, without secrets. */
  readonly url: string;
  readonly #endpoint: HttpEndpoint;

  constructor({ baseUrl, apiKey, headers = {} }: ServerHealthOptions) {
    this.#endpoint = new HttpEndpoint({
      baseUrl: serverRoot(baseUrl),
      headers: apiKey === undefined || apiKey === '' ? headers : { authorization: `Bearer ${apiKey}`, ...headers },
      connections: 2,
      makeError: (message, options) => new PolicyError(message, options),
    });
    this.url = this.#endpoint.url;
  }

  /**
   * Resolves once `GET /health` answers 200 (or 404, because gateways have no such route). At the deadline it rejects with the last attempt's error. It
   * rejects at once with an error that retrying cannot cure, or with CancelledError.
   */
  async wait(options: WaitOptions): Promise<void> {
    await this.#untilDeadline(options, async (signal) => {
      const response = await this.#endpoint.request({ method: 'GET', path: '/health', signal });
      if (response.status !== 200 && response.status !== 404) throw this.#refusal('/health', response);
    });
  }

  /** Names of the models and adapters served now. */
  async models(options: WaitOptions): Promise<readonly string[]> {
    return this.#untilDeadline(options, async (signal) => {
      const response = await this.#endpoint.request({ method: 'GET', path: '/v1/models', signal });
      const isProxys = response.status === 404 && parseVllmError(response.body.toString('utf8')) === null;
      if (response.status !== 200) throw this.#refusal('/v1/models', response, isProxys && options.isBehindProxy === true);
      return this.#namesIn(response.body);
    });
  }

  async close(): Promise<void> {
    await this.#endpoint.close();
  }

  #namesIn(body: Buffer): readonly string[] {
    let value: unknown = null;
    try {
      value = JSON.parse(body.toString('utf8'));
    } catch {
      // Reported below, like any other answer of the wrong shape.
    }
    const problem = VllmModelsShape.check(value);
    if (problem !== null) throw new PolicyError(`${this.url}/v1/models did not return a list of models: ${problem}. Check that it is a vLLM server`);
    return (value as { data: { id: string }[] }).data.map(({ id }) => id);
  }

  #refusal(path: string, response: HttpResponse, isTransient = false): PolicyError {
    const said = httpErrorText('GET', `${this.url}${path}`, response.status, response.body, this.#endpoint.hide);
    const options = { ...statusOptions(response), ...(isTransient ? { retryable: true } : {}) };
    const refused = refusedBy(response.status, response.body);
    if (response.status !== 401 && isOutOfCredit(response.status, errorFields(response.body))) return new PolicyError(creditText(said), options);
    if (refused === 'page') return new PolicyError(pageText(said), options);
    if (refused === 'key') return new PolicyKeyError(`${said}. The server rejected the API key; check it`, options);
    return new PolicyError(`${said}. Check that the server is healthy`, options);
  }

  async #untilDeadline<T>(
    { signal, deadlineMs, maxDelayMs = 8000, maxRetries = Infinity, onRetry }: WaitOptions,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const late = AbortSignal.timeout(timerMs(Math.max(1, Math.ceil(deadlineMs))));
    let last: VfError | null = null;
    try {
      return await withRetries(call, {
        signal: AbortSignal.any([signal, late]),
        timeoutMs: ATTEMPT_MS,
        maxRetries,
        random: Random.fromSeed(0),
        maxDelayMs,
        baseDelayMs: Math.min(250, maxDelayMs),
        onRetry: ({ error }) => {
          last = error;
          onRetry?.(error);
        },
      });
    } catch (error) {
      if (!(error instanceof CancelledError) || signal.aborted) throw error;
      const seconds = Math.round(deadlineMs / 100) / 10;
      const cause = last as VfError | null;
      const why = cause === null ? 'no answer' : cause.message;
      throw new PolicyError(`${this.url} was not ready within ${seconds} s: ${why}`, { cause: cause ?? error, retryable: true });
    }
  }
}
