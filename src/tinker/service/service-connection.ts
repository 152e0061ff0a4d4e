/**
 * Requests to a training service that speaks Tinker's wire: key and tokens, retries, pauses for billing and rate limits, results that are computed later.
 * Knows nothing of sessions and models.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { zstdCompress } from 'node:zlib';
import type { XStatic } from 'typebox/schema';
import { cancelled } from '../../core/abort.ts';
import type { VfError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import { clientConfigSchema, tokenSchema } from '../../schemas/tinker/answers.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../../transport/http-endpoint.ts';
import { secretRedactor } from '../../transport/redact.ts';
import { withRetries } from '../../transport/retry.ts';
import { answerJson } from './answer-json.ts';
import { ServiceKey } from './service-key.ts';
import { lacksRoute, TinkerError } from './tinker-error.ts';
import { TokenMeter } from './token-meter.ts';

/** What our requests call themselves. */
export const SDK_VERSION = '0.38.0';
const PROTOBUF = 'application/x-protobuf';
/** A result of 1,024 sequences of 32,768 tokens fits. */
const MAX_RESPONSE_BYTES = 2 ** 29;
/** 4 GiB. */
const MAX_ARCHIVE_BYTES = 2 ** 32;
const ARCHIVE_MS = 600_000;
const DELETE_MS = 10_000;
const BILLING_PAUSE_MS = 15_000;
const MAX_BILLING_MS = 3_600_000;
const compress = promisify(zstdCompress);

export interface ServiceConnectionOptions {
  /** The service's root, without `/api/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** The time for which a request is repeated while the service fails, in milliseconds. @default 300000 */
  readonly patienceMs?: number;
  /** The time for which a result is awaited. @default 1800000 */
  readonly resultMs?: number;
  /** The setting of that time, for errors. @default 'backend.timeout_s' */
  readonly resultSetting?: string;
  /** The time between two requests while an account is paused for billing. @default 15000 */
  readonly billingPauseMs?: number;
  /** Takes a line when the service makes the run wait. */
  readonly onNotice?: (line: string) => void;
  readonly random?: Random;
}

export interface ServiceRequest {
  /** Behind `/api/v1/`. */
  readonly route: string;
  /** An object becomes JSON; bytes are protobuf. @default a GET */
  readonly body?: object | Uint8Array;
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly headers?: Readonly<Record<string, string>>;
  /** Deadline of one attempt. @default 60000 */
  readonly timeoutMs?: number;
  /** Tells which failures are worth a further attempt. @default all that may pass */
  readonly mayRetry?: (error: VfError) => boolean;
  /** Is not held back by the service's rate limit. @default false */
  readonly isUrgent?: boolean;
  readonly signal: AbortSignal;
}

export class ServiceConnection implements AsyncDisposable {
  /** Without secrets. */
  readonly url: string;
  /** The time for which a result is awaited, in milliseconds. */
  readonly resultMs: number;
  /** The setting of that time. */
  readonly resultSetting: string;
  readonly notice: (line: string) => void;
  /** Bodies of protobuf are compressed. */
  readonly isCompressing: boolean;
  /** What sessions and models have asked for. */
  readonly meter = new TokenMeter();
  readonly #endpoint: HttpEndpoint;
  readonly #key: ServiceKey;
  readonly #options: ServiceConnectionOptions;
  readonly #random: Random;
  /** It has no route to delete weights. */
  #keepsAll = false;
  /** It did not answer, which was said, and has not answered since. */
  #isOut = false;

  private constructor(options: ServiceConnectionOptions, endpoint: HttpEndpoint, key: ServiceKey, isCompressing: boolean) {
    this.#options = options;
    this.#endpoint = endpoint;
    this.#key = key;
    this.isCompressing = isCompressing;
    this.url = endpoint.url;
    this.resultMs = options.resultMs ?? 1_800_000;
    this.resultSetting = options.resultSetting ?? 'backend.timeout_s';
    this.notice = options.onNotice ?? (() => {});
    this.#random = options.random ?? Random.fromSeed(0);
  }

  /** Asks the service for its configuration. Rejects with TinkerError if it does not answer, or refuses the key. */
  static async open(options: ServiceConnectionOptions, signal: AbortSignal): Promise<ServiceConnection> {
    const { baseUrl, apiKey } = options;
    const endpoint = new HttpEndpoint({
      baseUrl,
      headers: { 'x-api-key': apiKey },
      connections: 512,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      // Results are protobuf or JSON; those of passes exceed the bounds of a reply's JSON.
      isBinary: true,
      makeError: (message, about) => new TinkerError(message, about),
    });
    try {
      const plain = new ServiceConnection(options, endpoint, new ServiceKey(apiKey, null), false);
      const config = readAnswer(clientConfigSchema, await plain.request({ route: 'client/config', body: { sdk_version: SDK_VERSION }, signal }));
      const fetchToken = async (during: AbortSignal) =>
        readAnswer(tokenSchema, await plain.request({ route: 'auth/token', body: {}, signal: during })).jwt;
      const key = new ServiceKey(apiKey, config.pjwt_auth_enabled === true ? fetchToken : null);
      return new ServiceConnection(options, endpoint, key, config.proto_compress_fwdbwd === true);
    } catch (error) {
      await endpoint.close();
      throw error;
    }
  }

  /** The body as it is sent, with its headers. */
  async #written(body: object | Uint8Array): Promise<{ readonly body: Buffer; readonly headers: Record<string, string> }> {
    if (!(body instanceof Uint8Array)) return { body: Buffer.from(JSON.stringify(body)), headers: {} };
    if (!this.isCompressing) return { body: Buffer.from(body), headers: { 'content-type': PROTOBUF } };
    return { body: await compress(body), headers: { 'content-type': PROTOBUF, 'content-encoding': 'zstd' } };
  }

  /**
   * Resolves with an answer of a status from 200 to 299. All attempts have one idempotency key. Rejects with TinkerError, which has the status of the last answer, and with
   * CancelledError when the signal aborts.
   */
  async request({
    route,
    body,
    method = body === undefined ? 'GET' : 'POST',
    headers = {},
    mayRetry = () => true,
    isUrgent = false,
    ...rest
  }: ServiceRequest): Promise<HttpResponse> {
    const { signal, timeoutMs = 60_000 } = rest;
    const { patienceMs = 300_000 } = this.#options;
    const written = body === undefined ? null : await this.#written(body);
    const sent = {
      method,
      path: `/api/v1/${route}`,
      ...(written === null ? {} : { body: written.body }),
      headers: { accept: `${PROTOBUF}, application/json`, 'x-idempotency-key': `vf-search-${randomUUID()}`, ...written?.headers, ...headers },
    };
    const sinceMs = performance.now();
    return this.#afterBilling(
      () =>
        withRetries((attempt) => this.#attempt(sent, attempt), {
          signal,
          timeoutMs,
          maxRetries: Infinity,
          random: this.#random,
          ...(isUrgent ? {} : { rateLimit: this.#endpoint.rateLimit }),
          onRetry: ({ error }) => this.#noteOutage(error, patienceMs),
          mayRetry: (error) => mayRetry(error) && performance.now() - sinceMs < patienceMs,
        }),
      signal,
    );
  }

  async #attempt(sent: Omit<Parameters<HttpEndpoint['request']>[0], 'signal'>, signal: AbortSignal): Promise<HttpResponse> {
    const key = await this.#key.current(signal);
    const answer = await this.#endpoint.request({ ...sent, headers: { ...sent.headers, 'x-api-key': key }, signal });
    if (answer.status >= 200 && answer.status < 300) {
      this.#isOut = false;
      return answer;
    }
    throw this.#refusal(sent, answer, key);
  }

  /** Said once for each outage, however many requests find it. A wait for a rate limit is none. */
  #noteOutage(error: VfError, patienceMs: number): void {
    if (this.#isOut || error.status !== null) return;
    this.#isOut = true;
    this.notice(`The training service at ${this.url} does not answer; requests are repeated for up to ${Math.ceil(patienceMs / 1000)} s`);
  }

  /** The error of an answer, without the key. */
  #refusal({ method, path }: Pick<Parameters<HttpEndpoint['request']>[0], 'method' | 'path'>, answer: HttpResponse, key: string): TinkerError {
    const { status, body } = answer;
    const hide = (text: string) => secretRedactor([key])(this.#endpoint.hide(text));
    const message = httpErrorText(method, `${this.url}${path}`, status, body, hide);
    const isStale = status === 401 && this.#key.hasTokens;
    if (isStale) this.#key.discard(key);
    const isKeyRefused = !isStale && (status === 401 || status === 403);
    return new TinkerError(isKeyRefused ? `${message}. The service refuses the API key; check it` : message, {
      ...statusOptions(answer),
      // A name that is taken stays taken.
      ...(status === 409 ? { retryable: false } : {}),
      ...(isStale ? { retryable: true } : {}),
      ...(isKeyRefused ? { endsRun: true } : {}),
    });
  }

  /** Waits while the account is paused for billing, up to an hour. */
  async #afterBilling<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { billingPauseMs = BILLING_PAUSE_MS } = this.#options;
    const sinceMs = performance.now();
    for (let pauses = 0; ; pauses++) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof TinkerError) || error.status !== 402) throw error;
        if (performance.now() - sinceMs > MAX_BILLING_MS)
          throw new TinkerError(`${error.message}. Add credit to the account`, { cause: error, status: 402, endsRun: true });
        if (pauses === 0) this.notice('The training service has paused the account for billing. Add credit; the run waits for up to an hour');
      }
      await sleep(billingPauseMs, undefined, { signal }).catch(() => {
        throw cancelled(signal);
      });
    }
  }

  /**
   * The PEFT archive of saved weights, as .tar.gz. A service redirects to a link, which may be elsewhere and needs no key. Rejects as `request` does.
   * @param path `tinker://MODEL/sampler_weights/NAME`; some servers leave the middle part out
   */
  async archive(path: string, signal: AbortSignal): Promise<Buffer> {
    const route = `${checkpointRoute(path)}/archive`;
    const key = await this.#key.current(signal);
    const asked = { method: 'GET', path: `/api/v1/${route}`, headers: { 'x-api-key': key, accept: '*/*' }, signal } as const;
    const answer = await withRetries((attempt) => this.#endpoint.request({ ...asked, signal: attempt }), {
      signal,
      timeoutMs: ARCHIVE_MS,
      maxRetries: 2,
      random: this.#random,
    });
    const { location } = answer.headers;
    if (answer.status === 200) return answer.body;
    if (answer.status < 300 || answer.status > 399 || typeof location !== 'string') throw this.#refusal(asked, answer, key);
    const link = new URL(location, `${this.url}/`).href;
    const elsewhere = new HttpEndpoint({
      baseUrl: link,
      maxResponseBytes: MAX_ARCHIVE_BYTES,
      isBinary: true,
      makeError: (message, about) => new TinkerError(message, about),
    });
    try {
      const found = await elsewhere.request({ method: 'GET', path: '', headers: { accept: '*/*' }, signal });
      if (found.status === 200) return found.body;
      throw new TinkerError(httpErrorText('GET', elsewhere.url, found.status, found.body, elsewhere.hide), statusOptions(found));
    } finally {
      await elsewhere.close();
    }
  }

  /** Deletes saved weights, if they are still there. A service that has no such route keeps what it has, and is not asked again. */
  async delete(path: string, signal: AbortSignal): Promise<void> {
    if (this.#keepsAll) return;
    try {
      await this.request({ method: 'DELETE', route: checkpointRoute(path), mayRetry: () => false, timeoutMs: DELETE_MS, signal });
    } catch (error) {
      this.#keepsAll = error instanceof TinkerError && lacksRoute(error);
    }
  }

  /** `request`, read by a schema. */
  async ask<S extends object>(schema: S, request: ServiceRequest): Promise<XStatic<S>> {
    return readAnswer(schema, await this.request(request));
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#key.close();
    return this.#endpoint.close();
  }
}

/** Of saved weights. Throws TinkerError for another path than `tinker://MODEL/weights/NAME` and its like. */
function checkpointRoute(path: string): string {
  const [, model, place] = /^tinker:\/\/([^/]+)\/(.+)$/.exec(path) ?? [];
  if (model === undefined || place === undefined)
    throw new TinkerError(`${path} is no path of saved weights, such as tinker://MODEL/sampler_weights/NAME`);
  return `training_runs/${encodeURIComponent(model)}/checkpoints/${place.split('/').map(encodeURIComponent).join('/')}`;
}

/** True if the answer is protobuf, as results of passes and samples are where the service speaks it. */
export function isProtobuf({ headers }: Pick<HttpResponse, 'headers'>): boolean {
  return String(headers['content-type'] ?? '').includes('x-protobuf');
}

/** Throws TinkerError for another shape than the schema's. */
export function readAnswer<S extends object>(schema: S, { body }: Pick<HttpResponse, 'body'>): XStatic<S> {
  const check = schemaCheck(schema);
  const value = answerJson(body);
  if (check(value)) return value;
  throw new TinkerError(`The training service answered something else than its contract says: ${schemaProblem(check, 'the answer')}`);
}
