/**
 * One replica as the publisher sees it: vLLM's adapter routes, and log-probs of single tokens. Failures are PublishErrors that name the replica and
 * the remedy; the publisher decides when to give up and what to undo.
 */
import { PublishError, type VfError } from '../../core/errors.ts';
import type { Random } from '../../core/random.ts';
import { deadlineOf } from '../../rollouts/deadline.ts';
import { type LoraCard, parseLoraCards, parseLoraJudgement, parseLoraServerInfo } from '../../schemas/lora-server.ts';
import { parseVllmError } from '../../schemas/vllm.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../../transport/http-endpoint.ts';
import { withRetries } from '../../transport/retry.ts';

export interface LoraReplicaOptions {
  /** With or without `/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Retries after transient failures. */
  readonly maxRetries: number;
  /** Deadline of the whole load, and of one attempt at any other request. */
  readonly timeoutMs: number;
  readonly random: Random;
}

/** Timeout for asking the rank limit, which is useful to know but not essential. */
const LIMIT_MS = 5000;

/** The server has no model of that name: it was never loaded, was unloaded, or the server was restarted. */
export class ModelGoneError extends PublishError {}

/** The server computed NaN or an infinity. Every request that reuses the same cache blocks may fail too, until they are evicted. */
export class NumericServerError extends PublishError {}

/** The model whose log-probs are requested, at temperature 1. */
export interface AskedModel {
  readonly model: string;
  /** Separates its prefix cache from other models'. @default none */
  readonly cacheSalt?: string;
}

/** Overrides the sampling defaults of model and server. */
const PLAIN_SAMPLING = { max_tokens: 1, temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 } as const;

export class LoraReplica {
  /** Without `/v1`, without secrets. */
  readonly url: string;
  readonly #endpoint: HttpEndpoint;
  readonly #options: LoraReplicaOptions;
  #maxRank: number | null = null;

  constructor(options: LoraReplicaOptions) {
    const { apiKey, headers = {} } = options;
    this.#options = options;
    this.#endpoint = new HttpEndpoint({
      baseUrl: options.baseUrl.replace(/\/+$/, '').replace(/\/v1$/, ''),
      headers: apiKey === undefined || apiKey === '' ? headers : { authorization: `Bearer ${apiKey}`, ...headers },
      connections: 16,
      makeError: (message, errorOptions) => new PublishError(`${message}; check that the server runs and the URL is right`, errorOptions),
    });
    this.url = this.#endpoint.url;
  }

  /**
   * Loads a directory (the server's path) under a name. Retries if the server does not see the directory, because a shared disk may show it late.
   * A name that is already loaded from this directory counts as success: an earlier answer was lost.
   */
  async load(name: string, path: string, signal: AbortSignal): Promise<void> {
    const { timeoutMs } = this.#options;
    // Its timer ends with this call; that of AbortSignal.timeout would stay for all of `timeoutMs`.
    using deadline = deadlineOf({ timeoutMs, what: `${this.url} did not finish loading ${name}`, option: 'publish.load_timeout_s' }, signal);
    const body = { lora_name: name, lora_path: path, load_inplace: false };
    const attempt = async (attemptSignal: AbortSignal) => {
      const response = await this.#request('POST', '/v1/load_lora_adapter', body, attemptSignal);
      if (response.status === 200) return;
      if (response.status === 400 && /already been loaded/i.test(errorMessage(response))) {
        const card = await this.card(name, attemptSignal);
        if (card?.root === path) return;
        throw new PublishError(`${this.url} has already loaded ${name} from ${card?.root}. Give the run another name`, { status: 400 });
      }
      throw loadError(this.#describe('POST', '/v1/load_lora_adapter', response), path, response);
    };
    try {
      await this.#retried(attempt, deadline.signal, Infinity);
    } catch (error) {
      if (!signal.aborted && deadline.signal.aborted) {
        throw new PublishError(`${this.url} did not finish loading ${name} within ${timeoutMs} ms. Raise publish.load_timeout_s`, {
          cause: error,
          retryable: true,
        });
      }
      throw error;
    }
  }

  /** False if the server had no such adapter. */
  async unload(name: string, signal: AbortSignal): Promise<boolean> {
    const path = '/v1/unload_lora_adapter';
    return await this.#retried(async (attemptSignal) => {
      const response = await this.#request('POST', path, { lora_name: name }, attemptSignal);
      if (response.status === 200) return true;
      if (response.status === 404) return false;
      throw new PublishError(`The server did not unload ${name}: ${this.#describe('POST', path, response)}`, statusOptions(response));
    }, signal);
  }

  /** The server's card of a model; null if it does not list the model. */
  async card(name: string, signal: AbortSignal): Promise<LoraCard | null> {
    return (await this.cards(signal)).find(({ id }) => id === name) ?? null;
  }

  async cards(signal: AbortSignal): Promise<readonly LoraCard[]> {
    return (await this.#asked('GET', '/v1/models', undefined, parseLoraCards, signal)).data;
  }

  /**
   * The server's limit on ranks; 0 if LoRA is off. Null if the server does not report it: only development mode has the route, and any other fault
   * shows when the adapter is loaded. Asked for until known, then cached.
   */
  async maxRank(signal: AbortSignal): Promise<number | null> {
    if (this.#maxRank !== null) return this.#maxRank;
    const ask = async (attemptSignal: AbortSignal) => {
      const { status, body } = await this.#request('GET', '/server_info?config_format=json', undefined, attemptSignal);
      return status === 200 ? parseLoraServerInfo(parsedJson(body)) : null;
    };
    const options = { signal, timeoutMs: Math.min(this.#options.timeoutMs, LIMIT_MS), maxRetries: 0, random: this.#options.random };
    const info = await withRetries(ask, options).catch((error: unknown) => {
      if (signal.aborted) throw error;
      return null;
    });
    if (info === null) return null;
    const config = info.vllm_config.lora_config;
    this.#maxRank = config === null ? 0 : (config.max_lora_rank ?? null);
    return this.#maxRank;
  }

  /**
   * Log-prob of `token` after `before`, sampled with no other token allowed. It is the model's own if the server computes log-probs before its
   * filters. Null if the server sampled another token nevertheless.
   */
  async forcedLogProb(asked: AskedModel, before: Int32Array, token: number, signal: AbortSignal): Promise<number | null> {
    const fields = { prompt: [...before], logprobs: 0, return_token_ids: true, allowed_token_ids: [token] };
    const choice = await this.#judge(asked, fields, signal);
    return choice?.token_ids?.[0] === token ? this.#finite(choice.logprobs?.token_logprobs[0], token) : null;
  }

  /** Log-probs of the tokens at `targets` of a prompt, in one request. With vLLM's CPU build, it must not run beside others. [M] */
  async promptLogProbs(asked: AskedModel, ids: Int32Array, targets: readonly number[], signal: AbortSignal): Promise<number[]> {
    const choice = await this.#judge(asked, { prompt: [...ids], prompt_logprobs: 0 }, signal);
    return targets.map((target) => this.#finite(choice?.prompt_logprobs?.[target]?.[String(ids[target])]?.logprob, ids[target]!));
  }

  /**
   * Adapters with requests that the server computes or holds back, as of its last engine step; null if it does not report them. An idle server may still
   * list the adapter of a request that was abandoned, until its next step.
   */
  async adaptersInUse(signal: AbortSignal): Promise<ReadonlySet<string> | null> {
    const { status, body } = await this.#retried((attemptSignal) => this.#request('GET', '/metrics', undefined, attemptSignal), signal);
    return status === 200 ? adaptersInMetrics(body.toString('utf8')) : null;
  }

  /** Resolves once the server's engine has taken a step that began after this call. */
  async passStep(model: string, signal: AbortSignal): Promise<void> {
    await this.#judge({ model }, { prompt: [0] }, signal);
  }

  /** Whether the server reports success; null if it has no such route. A busy server may report success without doing anything. */
  async resetPrefixCache(signal: AbortSignal): Promise<boolean | null> {
    const response = await this.#retried((attemptSignal) => this.#request('POST', '/reset_prefix_cache', {}, attemptSignal), signal);
    return response.status === 404 || response.status === 405 ? null : response.status === 200;
  }

  async close(): Promise<void> {
    await this.#endpoint.close();
  }

  async #judge({ model, cacheSalt }: AskedModel, fields: Readonly<Record<string, unknown>>, signal: AbortSignal) {
    const salt = cacheSalt === undefined ? {} : { cache_salt: cacheSalt };
    const answer = await this.#asked('POST', '/v1/completions', { model, ...PLAIN_SAMPLING, ...fields, ...salt }, parseLoraJudgement, signal);
    return answer.choices[0];
  }

  #finite(value: number | null | undefined, token: number): number {
    if (value === undefined)
      throw new PublishError(`The response of ${this.url} lacks the log-prob of token ${token}. Check that the server is vLLM`);
    if (value === null || !Number.isFinite(value)) throw new NumericServerError(`${this.url} returned ${value} as the log-prob of token ${token}`);
    return value;
  }

  /** Returns a parsed 200 answer, or throws PublishError. */
  async #asked<T>(method: 'GET' | 'POST', path: string, body: unknown, parse: (value: unknown) => T | null, signal: AbortSignal): Promise<T> {
    return await this.#retried(async (attemptSignal) => {
      const response = await this.#request(method, path, body, attemptSignal);
      const exchange = this.#describe(method, path, response);
      if (response.status !== 200) throw requestError(exchange, response);
      const value = parse(parsedJson(response.body));
      if (value === null) throw new PublishError(`The response does not have vLLM's format: ${exchange}. Check that the server is vLLM`);
      return value;
    }, signal);
  }

  #request(method: 'GET' | 'POST', path: string, body: unknown, signal: AbortSignal): Promise<HttpResponse> {
    return this.#endpoint.request({ method, path, signal, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  }

  #retried<T>(call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal, timeoutMs = this.#options.timeoutMs): Promise<T> {
    const { maxRetries, random } = this.#options;
    return withRetries(call, { signal, timeoutMs, maxRetries, random });
  }

  #describe(method: string, path: string, { status, body }: HttpResponse): string {
    return httpErrorText(method, `${this.url}${path}`, status, body, this.#endpoint.hide);
  }
}

/** From vLLM's figure of that name: one sample per set of labels ever seen, with the time when it was last true as its value. */
function adaptersInMetrics(text: string): ReadonlySet<string> | null {
  const samples = [...text.matchAll(/^vllm:lora_requests_info\{(.*)\} (\S+)$/gm)].map(([, labels, value]) => ({
    labels: labels!,
    atS: Number(value),
  }));
  const newest = samples.toSorted((a, b) => b.atS - a.atS)[0];
  if (newest === undefined) return null;
  const names = [...newest.labels.matchAll(/(?:running|waiting)_lora_adapters="([^"]*)"/g)].flatMap(([, listed]) => listed!.split(','));
  return new Set(names.filter((name) => name !== ''));
}

function errorMessage({ body }: HttpResponse): string {
  return parseVllmError(body.toString('utf8'))?.message ?? '';
}

/** `exchange`: request, status and the beginning of the body. */
function loadError(exchange: string, path: string, response: HttpResponse): VfError {
  const { status } = response;
  const message = errorMessage(response);
  if ((status === 404 && /^(not found)?$/i.test(message)) || status === 405) {
    return new PublishError(
      `The server cannot load adapters at run time: ${exchange}. Start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment and --enable-lora --max-lora-rank N --max-loras M`,
      // A proxy answers 404 with a page of its own while the server restarts.
      { status, endsRun: message !== '' },
    );
  }
  if (status === 404) {
    return new PublishError(
      `The server does not find ${path}: ${exchange}. If it sees the adapter directory under another path (containers), set publish.server_adapter_dir`,
      { status, retryable: true },
    );
  }
  const rank = /rank (\d+) is greater than max_lora_rank (\d+)/i.exec(message);
  if (rank !== null) return rankError(Number(rank[1]), Number(rank[2]), exchange, status);
  if (status === 401 || status === 403) return requestError(exchange, response);
  // vLLM answers 500 for a bad adapter, so a retry is useless. Gateways and overloaded servers use other 5xx codes.
  return new PublishError(`The server did not load the adapter: ${exchange}`, status === 500 ? { status } : statusOptions(response));
}

export function rankError(rank: number, limit: number, where: string, status?: number): PublishError {
  const remedy = limit === 0 ? '--enable-lora --max-lora-rank' : '--max-lora-rank';
  return new PublishError(
    `Rank ${rank} exceeds the server's limit of ${limit}: ${where}. Start vLLM with ${remedy} ${rank} or more, or lower [lora] rank`,
    status === undefined ? { endsRun: true } : { status, endsRun: true },
  );
}

function requestError(exchange: string, response: HttpResponse): VfError {
  const { status } = response;
  const { message = '', param = null } = parseVllmError(response.body.toString('utf8')) ?? {};
  if (/out of range float values/i.test(message))
    return new NumericServerError(`The server computed a log-prob that is not finite: ${exchange}`, { status });
  if (status === 404 && (param === 'model' || /does not exist/i.test(message))) {
    return new ModelGoneError(`The server does not have the model: ${exchange}`, { status });
  }
  if (status === 401 || status === 403)
    return new PublishError(`The server rejected the API key: ${exchange}. Check the variable that policy.api_key_var names`, {
      status,
      endsRun: true,
    });
  // A proxy answers 404 with a page of its own while the server restarts.
  const isProxys = status === 404 && message === '';
  return new PublishError(`The request failed: ${exchange}`, { ...statusOptions(response), ...(isProxys ? { retryable: true } : {}) });
}

function parsedJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
}
