/**
 * One replica as the publisher sees it: vLLM's routes for adapters, and the judgement of single tokens. Failures are PublishErrors that name the
 * replica and what to do; when to give up and what to undo is the publisher's affair.
 */
import { PublishError, type VfError } from '../../core/errors.ts';
import type { Random } from '../../core/random.ts';
import { LONGEST_TIMER_MS } from '../../core/timers.ts';
import { type LoraCard, parseLoraCards, parseLoraJudgement, parseLoraServerInfo } from '../../schemas/lora-server.ts';
import { parseVllmError } from '../../schemas/vllm.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../../transport/http-endpoint.ts';
import { withRetries } from '../../transport/retry.ts';

export interface LoraReplicaOptions {
  /** With or without `/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Attempts beyond the first, where a failure may pass. */
  readonly maxRetries: number;
  /** Of the whole load, and of one attempt at any other request. */
  readonly timeoutMs: number;
  readonly random: Random;
}

/** A limit that is worth knowing, not worth waiting for. */
const LIMIT_MS = 5000;

/** The server has no model of that name: it was never loaded, was unloaded, or the server is another process by now. */
export class ModelGoneError extends PublishError {}

/** The server computed NaN or an infinity: every request through the same cache blocks may, until they are forgotten. */
export class NumericServerError extends PublishError {}

/** What is asked: log-probs under a model, at temperature 1. */
export interface AskedModel {
  readonly model: string;
  /** Keeps its prefix cache apart from other models'. @default none */
  readonly cacheSalt?: string;
}

/** Neither the model's own sampling defaults nor the server's ever apply. */
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
   * Loads the directory, as the server sees it, under a name. A directory that the server does not see yet is asked for again: a shared disk
   * shows it late. A name that is loaded already counts where it stands for this directory: an answer got lost.
   */
  async load(name: string, path: string, signal: AbortSignal): Promise<void> {
    const { timeoutMs } = this.#options;
    const deadline = AbortSignal.timeout(Math.min(timeoutMs, LONGEST_TIMER_MS));
    const body = { lora_name: name, lora_path: path, load_inplace: false };
    const attempt = async (attemptSignal: AbortSignal) => {
      const response = await this.#request('POST', '/v1/load_lora_adapter', body, attemptSignal);
      if (response.status === 200) return;
      if (response.status === 400 && /already been loaded/i.test(errorMessage(response))) {
        const card = await this.card(name, attemptSignal);
        if (card?.root === path) return;
        throw new PublishError(`Expected the name ${name} to be free at ${this.url}, got it loaded from ${card?.root}; give the run another name`, {
          status: 400,
        });
      }
      throw loadError(this.#said('POST', '/v1/load_lora_adapter', response), path, response);
    };
    try {
      await this.#retried(attempt, AbortSignal.any([signal, deadline]), Infinity);
    } catch (error) {
      if (!signal.aborted && deadline.aborted) {
        throw new PublishError(`Expected ${this.url} to load ${name} within ${timeoutMs} ms, got no end of it; raise load_timeout_s`, {
          cause: error,
          retryable: true,
        });
      }
      throw error;
    }
  }

  /** False where the server had no such adapter. */
  async unload(name: string, signal: AbortSignal): Promise<boolean> {
    const path = '/v1/unload_lora_adapter';
    return await this.#retried(async (attemptSignal) => {
      const response = await this.#request('POST', path, { lora_name: name }, attemptSignal);
      if (response.status === 200) return true;
      if (response.status === 404) return false;
      throw new PublishError(`Expected ${name} to be unloaded, got ${this.#said('POST', path, response)}`, statusOptions(response));
    }, signal);
  }

  /** What the server says of a model; null where it does not list it. */
  async card(name: string, signal: AbortSignal): Promise<LoraCard | null> {
    return (await this.cards(signal)).find(({ id }) => id === name) ?? null;
  }

  async cards(signal: AbortSignal): Promise<readonly LoraCard[]> {
    return (await this.#asked('GET', '/v1/models', undefined, parseLoraCards, signal)).data;
  }

  /**
   * The server's limit on ranks; 0 where LoRA is off. Null where it does not tell: only development mode has the route, and whatever else is wrong
   * will show when the adapter is loaded. Asked for until it is known.
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
   * Log-prob of `token` after `before`, sampled with no other token allowed: the model's own where the server takes log-probs before its filters.
   * Null where the server sampled another token all the same.
   */
  async forcedLogProb(asked: AskedModel, before: Int32Array, token: number, signal: AbortSignal): Promise<number | null> {
    const fields = { prompt: [...before], logprobs: 0, return_token_ids: true, allowed_token_ids: [token] };
    const choice = await this.#judge(asked, fields, signal);
    return choice?.token_ids?.[0] === token ? this.#finite(choice.logprobs?.token_logprobs[0], token) : null;
  }

  /** Log-probs of the tokens at `targets` of a prompt, in one request that must not run beside others where the server is vLLM's CPU build. [M] */
  async promptLogProbs(asked: AskedModel, ids: Int32Array, targets: readonly number[], signal: AbortSignal): Promise<number[]> {
    const choice = await this.#judge(asked, { prompt: [...ids], prompt_logprobs: 0 }, signal);
    return targets.map((target) => this.#finite(choice?.prompt_logprobs?.[target]?.[String(ids[target])]?.logprob, ids[target]!));
  }

  /** Null where the server has no such route; else whether it says it did it. A server that is busy may do nothing and say yes. */
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
      throw new PublishError(`Expected the log-prob of token ${token} from ${this.url}, got an answer without it; is it vLLM?`);
    if (value === null || !Number.isFinite(value))
      throw new NumericServerError(`Expected a finite log-prob of token ${token} from ${this.url}, got ${value}`);
    return value;
  }

  /** A 200 of the right shape, or PublishError. */
  async #asked<T>(method: 'GET' | 'POST', path: string, body: unknown, parse: (value: unknown) => T | null, signal: AbortSignal): Promise<T> {
    return await this.#retried(async (attemptSignal) => {
      const response = await this.#request(method, path, body, attemptSignal);
      const said = this.#said(method, path, response);
      if (response.status !== 200) throw requestError(said, response);
      const value = parse(parsedJson(response.body));
      if (value === null) throw new PublishError(`Expected an answer as vLLM gives it, got ${said}`);
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

  #said(method: string, path: string, { status, body }: HttpResponse): string {
    return httpErrorText(method, `${this.url}${path}`, status, body, this.#endpoint.hide);
  }
}

function errorMessage({ body }: HttpResponse): string {
  return parseVllmError(body.toString('utf8'))?.message ?? '';
}

/** `said` names request, status and the beginning of the body. */
function loadError(said: string, path: string, response: HttpResponse): VfError {
  const { status } = response;
  const message = errorMessage(response);
  if ((status === 404 && /^(not found)?$/i.test(message)) || status === 405) {
    return new PublishError(
      `Expected a server that takes adapters at run time, got ${said}; start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment and --enable-lora --max-lora-rank N --max-loras M`,
      { status },
    );
  }
  if (status === 404) {
    return new PublishError(
      `Expected the server to find ${path}, got ${said}; it must see the adapter directory: set server_adapter_dir where the path differs (containers)`,
      { status, retryable: true },
    );
  }
  const rank = /rank (\d+) is greater than max_lora_rank (\d+)/i.exec(message);
  if (rank !== null) return rankError(Number(rank[1]), Number(rank[2]), said, status);
  if (status === 401 || status === 403) return requestError(said, response);
  // vLLM tells a bad adapter by 500: asking again gives the same answer. Gateways and full servers are others' 5xx.
  return new PublishError(`Expected the adapter to load, got ${said}`, status === 500 ? { status } : statusOptions(response));
}

export function rankError(rank: number, limit: number, where: string, status?: number): PublishError {
  const remedy = limit === 0 ? '--enable-lora --max-lora-rank' : '--max-lora-rank';
  return new PublishError(
    `Expected a rank of at most ${limit}, got ${rank}: ${where}; start vLLM with ${remedy} ${rank} or more, or lower [lora] rank`,
    status === undefined ? {} : { status },
  );
}

function requestError(said: string, response: HttpResponse): VfError {
  const { status } = response;
  const { message = '', param = null } = parseVllmError(response.body.toString('utf8')) ?? {};
  if (/out of range float values/i.test(message)) return new NumericServerError(`Expected finite log-probs, got ${said}`, { status });
  if (status === 404 && (param === 'model' || /does not exist/i.test(message))) {
    return new ModelGoneError(`Expected a model that the server has, got ${said}`, { status });
  }
  if (status === 401 || status === 403) return new PublishError(`Expected to be let in, got ${said}; check the API key`, { status });
  return new PublishError(`Expected an answer, got ${said}`, statusOptions(response));
}

function parsedJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
}
