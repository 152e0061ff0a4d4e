/**
 * Google through Serper (https://serper.dev), one request per query. Passages are in the order of upstream's SerpAPI server
 * (search_r1/search/serp_search_server.py): answer box, organic results, "people also ask". So a query may return up to 2 topk + 1 passages,
 * without ids and scores.
 */
import { ConfigError, RetrievalError, TimeoutError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { readJson } from '../core/read-json.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../transport/http-endpoint.ts';
import { Limiter } from '../core/limiter.ts';
import { type RetryOptions, withRetries } from '../transport/retry.ts';
import type { Passage, Retriever } from './retriever.ts';
import { isObject } from '../schemas/is-object.ts';

/** A search result in SerpAPI's format. */
export interface SerpResult {
  readonly answer_box?: SerpEntry | null;
  readonly organic_results?: readonly SerpEntry[] | null;
  readonly related_questions?: readonly SerpEntry[] | null;
}

interface SerpEntry {
  readonly title?: string | null;
  readonly question?: string | null;
  readonly snippet?: string | null;
}

export interface SerpPassage {
  readonly document: { readonly contents: string };
}

/** Upstream's `_process_result`: answer box first (unless empty), then at most `topk` organic results, then at most `topk` related questions. */
export function serpPassages(result: SerpResult, topk: number): SerpPassage[] {
  const passages: SerpPassage[] = [];
  const add = (title: string | null | undefined, snippet: string | null | undefined) =>
    passages.push({ document: { contents: `"${title ?? 'No title.'}"\n${snippet ?? 'No snippet available.'}` } });
  const box = result.answer_box ?? {};
  if (Object.keys(box).length > 0) add(box.title, box.snippet);
  for (const { title, snippet } of (result.organic_results ?? []).slice(0, topk)) add(title, snippet);
  for (const { question, snippet } of (result.related_questions ?? []).slice(0, topk)) add(question, snippet);
  return passages;
}

export interface SerperOptions {
  /** Sent as `X-API-KEY`, never logged. */
  readonly apiKey: string;
  /** @default https://google.serper.dev */
  readonly baseUrl?: string;
  /** Deadline of one attempt. @default 20000 */
  readonly timeoutMs?: number;
  /** Attempts beyond the first. @default 4 */
  readonly maxRetries?: number;
  /** Delay before the first retry; it doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Maximum of concurrent requests. @default 8 */
  readonly concurrency?: number;
  /** Source of jitter for the delays; does not affect results. @default a generator that differs between processes */
  readonly random?: Random;
}

export class SerperRetriever implements Retriever {
  readonly name: string;
  readonly #endpoint: HttpEndpoint;
  readonly #limiter: Limiter;
  readonly #retry: Omit<RetryOptions, 'signal'>;

  constructor(options: SerperOptions) {
    const { apiKey, baseUrl = 'https://google.serper.dev', timeoutMs = 20_000, maxRetries = 4, baseDelayMs = 500, concurrency = 8 } = options;
    if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new ConfigError('The Serper API key is missing or contains invalid characters. Set SERPER_API_KEY.');
    this.#limiter = new Limiter(concurrency);
    this.#endpoint = new HttpEndpoint({
      baseUrl,
      headers: { 'x-api-key': apiKey },
      connections: concurrency,
      makeError: (message, cause) => new RetrievalError(message, cause),
    });
    this.name = `serper (${this.#endpoint.url})`;
    this.#retry = { timeoutMs, maxRetries, baseDelayMs, random: options.random ?? Random.fromSeed(process.pid) };
  }

  /** A blank query has no hits and sends no request, because Serper refuses it. */
  search(
    queries: readonly string[],
    { topk, signal }: { readonly topk: number; readonly signal: AbortSignal },
  ): Promise<readonly (readonly Passage[])[]> {
    return Promise.all(queries.map((query) => this.#limiter.run(() => this.#searchOne(query, topk, signal), signal)));
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #searchOne(q: string, topk: number, signal: AbortSignal): Promise<readonly Passage[]> {
    if (q.trim() === '') return [];
    const body = JSON.stringify({ q, num: topk });
    try {
      return await withRetries((attempt) => this.#post(body, topk, attempt), { ...this.#retry, signal });
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      // Not retryable: every attempt had its full deadline, and a restarted episode would wait as long again.
      throw new RetrievalError(`[POST] ${this.#endpoint.url}/search: ${error.message}`, { cause: error });
    }
  }

  async #post(body: string, topk: number, signal: AbortSignal): Promise<readonly Passage[]> {
    const response = await this.#endpoint.request({ method: 'POST', path: '/search', body, signal });
    if (response.status === 401 || response.status === 403)
      throw new RetrievalError(`${this.#describe(response)}; check SERPER_API_KEY`, { status: response.status });
    if (response.status !== 200) throw new RetrievalError(this.#describe(response), statusOptions(response));
    const result = parseSerper(response.body);
    if (!result.ok) throw new RetrievalError(`${this.#describe(response)} (${result.problem})`, { status: 200, retryable: !result.isJson });
    return serpPassages(result.value, topk).map(({ document }) => document);
  }

  #describe({ status, body }: HttpResponse): string {
    return httpErrorText('POST', `${this.#endpoint.url}/search`, status, body, this.#endpoint.hide);
  }
}

type ParsedSerper = { readonly ok: true; readonly value: SerpResult } | { readonly ok: false; readonly problem: string; readonly isJson: boolean };

/** Converts Serper's format to SerpAPI's. An answer box without a snippet has the short `answer` instead. */
function parseSerper(body: Buffer): ParsedSerper {
  let json: unknown;
  try {
    json = readJson(body.toString('utf8'));
  } catch (error) {
    return { ok: false, problem: `expected JSON: ${(error as Error).message}`, isJson: false };
  }
  const expected = 'expected an object with a list "organic"';
  if (!isObject(json)) return { ok: false, problem: expected, isJson: true };
  const { organic, answerBox, peopleAlsoAsk } = json;
  if (!Array.isArray(organic) && !isObject(json['searchParameters'])) return { ok: false, problem: expected, isJson: true };
  const box = isObject(answerBox) ? entry(answerBox) : {};
  if (isObject(answerBox) && box.snippet === undefined) Object.assign(box, entry({ snippet: answerBox['answer'] }));
  return { ok: true, value: { answer_box: box, organic_results: entries(organic), related_questions: entries(peopleAlsoAsk) } };
}

function entries(list: unknown): SerpEntry[] {
  return Array.isArray(list) ? list.filter(isObject).map(entry) : [];
}

function entry(value: Readonly<Record<string, unknown>>): SerpEntry {
  return Object.fromEntries(['title', 'question', 'snippet'].flatMap((key) => (typeof value[key] === 'string' ? [[key, value[key]]] : [])));
}
