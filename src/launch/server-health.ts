/** Whether one vLLM server answers, and what it serves: no more than a run needs to know before it goes on. */
import { CancelledError, PolicyError, type VfError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { LONGEST_TIMER_MS } from '../core/timers.ts';
import { VllmModelsShape } from '../schemas/vllm.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../transport/http-endpoint.ts';
import { withRetries } from '../transport/retry.ts';

export interface ServerHealthOptions {
  /** Up to and with `/v1`, or without it. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface WaitOptions {
  readonly signal: AbortSignal;
  /** From now on, all attempts together. */
  readonly deadlineMs: number;
  /** Longest pause between attempts. @default 8000 */
  readonly maxDelayMs?: number;
  readonly onRetry?: (why: VfError) => void;
}

/** A healthy server answers in milliseconds; one under full load within seconds. */
const ATTEMPT_MS = 10_000;

export class ServerHealth {
  /** Without `/v1`, without secrets. */
  readonly url: string;
  readonly #endpoint: HttpEndpoint;

  constructor({ baseUrl, apiKey, headers = {} }: ServerHealthOptions) {
    this.#endpoint = new HttpEndpoint({
      baseUrl: baseUrl.replace(/\/+$/, '').replace(/\/v1$/, ''),
      headers: apiKey === undefined || apiKey === '' ? headers : { authorization: `Bearer ${apiKey}`, ...headers },
      connections: 2,
      makeError: (message, options) => new PolicyError(message, options),
    });
    this.url = this.#endpoint.url;
  }

  /**
   * Resolves once `GET /health` answers 200 (or 404: gateways have no such route). Rejects with the last attempt's failure at the deadline, at once
   * with one that cannot pass, and with CancelledError.
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
      if (response.status !== 200) throw this.#refusal('/v1/models', response);
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
      // Told below, like any other answer of the wrong shape.
    }
    const problem = VllmModelsShape.check(value);
    if (problem !== null)
      throw new PolicyError(`Expected a list of models from ${this.url}/v1/models, but ${problem}; check that it is a vLLM server`);
    return (value as { data: { id: string }[] }).data.map(({ id }) => id);
  }

  #refusal(path: string, response: HttpResponse): PolicyError {
    const said = httpErrorText('GET', `${this.url}${path}`, response.status, response.body, this.#endpoint.hide);
    const remedy = response.status === 401 || response.status === 403 ? 'check the API key' : 'check that the server is well';
    return new PolicyError(`Expected 200, got ${said}; ${remedy}`, statusOptions(response));
  }

  async #untilDeadline<T>({ signal, deadlineMs, maxDelayMs = 8000, onRetry }: WaitOptions, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = AbortSignal.timeout(Math.min(Math.max(1, Math.ceil(deadlineMs)), LONGEST_TIMER_MS));
    let last: VfError | null = null;
    try {
      return await withRetries(call, {
        signal: AbortSignal.any([signal, late]),
        timeoutMs: ATTEMPT_MS,
        maxRetries: Infinity,
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
      const why = cause === null ? 'it did not answer' : cause.message;
      throw new PolicyError(`Expected ${this.url} to answer within ${seconds} s: ${why}`, { cause: cause ?? error, retryable: true });
    }
  }
}
