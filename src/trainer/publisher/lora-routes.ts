/**
 * One replica as the publisher sees it: vLLM's adapter routes, and log-probs of single tokens. Failures are PublishErrors that name the replica and
 * the remedy; the publisher decides when to give up and what to undo.
 */
import { PublishError } from '../../core/errors.ts';
import type { Random } from '../../core/random.ts';
import { deadlineOf } from '../../rollouts/deadline.ts';
import {
  type LoraCard,
  type LoraGeneration,
  parseLoraCards,
  parseLoraGeneration,
  parseLoraJudgement,
  parseLoraServerInfo,
} from '../../schemas/lora-server.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../../transport/http-endpoint.ts';
import { withRetries } from '../../transport/retry.ts';
import type { ImageStore } from '../../core/message.ts';
import { errorMessage, fullError, isFull, loadError, NumericServerError, requestError } from './lora-refusals.ts';
import { compactIds, GENERATE_PATH, imageParts, type ProbedPrompt, seenFault } from './pictured-prompt.ts';
import { jsonOrNull } from '../../schemas/json-or-null.ts';
import { serverRoot } from '../../core/server-url.ts';

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
  /** The images of prompts. @default no prompt has any */
  readonly images?: ImageStore;
}

/** Timeout for asking the rank limit, which is useful to know but not essential. */
const LIMIT_MS = 5000;

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
      baseUrl: serverRoot(options.baseUrl),
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
      if (isFull(response)) throw fullError(this.#describe('POST', '/v1/load_lora_adapter', response), path, await this.cards(attemptSignal));
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
      return status === 200 ? parseLoraServerInfo(jsonOrNull(body.toString('utf8'))) : null;
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
  async forcedLogProb(asked: AskedModel, before: ProbedPrompt, token: number, signal: AbortSignal): Promise<number | null> {
    const forced = { logprobs: 0, allowed_token_ids: [token] };
    if (hasImages(before)) {
      const [choice] = (await this.#generate(asked, before, forced, signal)).choices;
      return choice?.token_ids?.[0] === token ? this.#finite(choice.logprobs?.content[0]?.logprob, token) : null;
    }
    const choice = await this.#judge(asked, { prompt: [...before.ids], return_token_ids: true, ...forced }, signal);
    return choice?.token_ids?.[0] === token ? this.#finite(choice.logprobs?.token_logprobs[0], token) : null;
  }

  /** Log-probs of the tokens at `targets` of a prompt, in one request. With vLLM's CPU build, it must not run at the same time as others. [M] */
  async promptLogProbs(asked: AskedModel, prompt: ProbedPrompt, targets: readonly number[], signal: AbortSignal): Promise<number[]> {
    const judged = await this.judgedPrompt(asked, prompt, targets, signal);
    return judged.map((logProb, i) => this.#finite(logProb, prompt.ids[targets[i]!]!));
  }

  /** The same, as the server says them: undefined for a token that its answer lacks, null for one that is not a number. [M] */
  async judgedPrompt(
    asked: AskedModel,
    prompt: ProbedPrompt,
    targets: readonly number[],
    signal: AbortSignal,
  ): Promise<readonly (number | null | undefined)[]> {
    const { ids } = prompt;
    const judged = hasImages(prompt)
      ? (await this.#generate(asked, prompt, { prompt_logprobs: 0, logprobs: 0 }, signal)).prompt_logprobs
      : (await this.#judge(asked, { prompt: [...ids], prompt_logprobs: 0 }, signal))?.prompt_logprobs;
    return targets.map((target) => judged?.[target]?.[String(ids[target])]?.logprob);
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

  /** Returns whether the server reports success; null if it has no such route. A busy server may report success without doing anything. */
  async resetPrefixCache(signal: AbortSignal): Promise<boolean | null> {
    const response = await this.#retried((attemptSignal) => this.#request('POST', '/reset_prefix_cache', {}, attemptSignal), signal);
    return response.status === 404 || response.status === 405 ? null : response.status === 200;
  }

  /** Sends a command without an answer of interest. Rejects with PublishError unless the status is 200. */
  async command(path: string, fields: Readonly<Record<string, unknown>> | null, signal: AbortSignal): Promise<void> {
    const response = await this.#retried((attemptSignal) => this.#request('POST', path, fields ?? undefined, attemptSignal), signal);
    if (response.status !== 200) throw requestError(this.#describe('POST', path, response), response);
  }

  async close(): Promise<void> {
    await this.#endpoint.close();
  }

  async #judge({ model, cacheSalt }: AskedModel, fields: Readonly<Record<string, unknown>>, signal: AbortSignal) {
    const salt = cacheSalt === undefined ? {} : { cache_salt: cacheSalt };
    const answer = await this.#asked('POST', '/v1/completions', { model, ...PLAIN_SAMPLING, ...fields, ...salt }, parseLoraJudgement, signal);
    return answer.choices[0];
  }

  /** Names the images, and sends those that the server does not have. */
  async #generate(
    { model, cacheSalt }: AskedModel,
    prompt: ProbedPrompt,
    sampling: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<LoraGeneration> {
    const { images = [] } = prompt;
    const ask = async (store: ImageStore | null) => {
      const body = {
        model,
        token_ids: compactIds(prompt),
        content_parts: await imageParts(images, store),
        sampling_params: { ...PLAIN_SAMPLING, ...sampling },
        return_token_ids: true,
        output_mode: 'text',
        ...(cacheSalt === undefined ? {} : { cache_salt: cacheSalt }),
      };
      return this.#asked('POST', GENERATE_PATH, body, parseLoraGeneration, signal);
    };
    const answer = await ask(null).catch((error: unknown) => {
      const isMissing = error instanceof PublishError && error.status === 400 && /cache miss/i.test(error.message);
      if (!isMissing || this.#options.images === undefined) throw error;
      return ask(this.#options.images);
    });
    const fault = seenFault(prompt, answer);
    if (fault === null) return answer;
    throw new PublishError(`${this.url} does not see the images that the trainer sees: ${fault}. Serve the model with its own image processor`);
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
      const value = parse(jsonOrNull(response.body.toString('utf8')));
      if (value === null) throw new PublishError(`The response does not have vLLM's format: ${exchange}. Check that the server is vLLM`);
      return value;
    }, signal);
  }

  #request(method: 'GET' | 'POST', path: string, body: unknown, signal: AbortSignal): Promise<HttpResponse> {
    return this.#endpoint.request({ method, path, signal, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  }

  #retried<T>(call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal, timeoutMs = this.#options.timeoutMs): Promise<T> {
    const { maxRetries, random } = this.#options;
    return withRetries(call, { signal, timeoutMs, maxRetries, random, rateLimit: this.#endpoint.rateLimit });
  }

  #describe(method: string, path: string, { status, body }: HttpResponse): string {
    return httpErrorText(method, `${this.url}${path}`, status, body, this.#endpoint.hide);
  }
}

function hasImages({ images = [] }: ProbedPrompt): boolean {
  return images.length > 0;
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
