/**
 * Google through Serper (https://serper.dev), one request per query. Passages are in the order of upstream's SerpAPI server
 * (search_r1/search/serp_search_server.py): answer box, organic results, "people also ask". So a query may return up to 2 topk + 1 passages,
 * without ids and scores.
 */
import { ConfigError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { isUsableKey, WebRetriever, type WebRetrieverOptions } from './web-retriever.ts';

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

export interface SerperOptions extends WebRetrieverOptions {
  /** Sent as `X-API-KEY`, never logged. */
  readonly apiKey: string;
}

export class SerperRetriever extends WebRetriever {
  /** `baseUrl`: https://google.serper.dev by default. Throws ConfigError for an unusable key. */
  constructor({ apiKey, baseUrl = 'https://google.serper.dev', ...options }: SerperOptions) {
    if (!isUsableKey(apiKey)) throw new ConfigError('The Serper API key is missing or contains invalid characters. Set SERPER_API_KEY.');
    super(
      {
        name: 'serper',
        baseUrl,
        headers: { 'x-api-key': apiKey },
        method: 'POST',
        path: '/search',
        refusal: 'check SERPER_API_KEY',
        expected: 'an object with a list "organic"',
        request: (q, topk) => JSON.stringify({ q, num: topk }),
        passages: (json, topk) => {
          const result = serpResult(json);
          return result === null ? null : serpPassages(result, topk).map(({ document }) => document);
        },
      },
      options,
    );
  }
}

/** Converts Serper's format to SerpAPI's; null for another shape. An answer box without a snippet has the short `answer` instead. */
function serpResult(json: unknown): SerpResult | null {
  if (!isObject(json)) return null;
  const { organic, answerBox, peopleAlsoAsk } = json;
  if (!Array.isArray(organic) && !isObject(json['searchParameters'])) return null;
  const box = isObject(answerBox) ? entry(answerBox) : {};
  if (isObject(answerBox) && box.snippet === undefined) Object.assign(box, entry({ snippet: answerBox['answer'] }));
  return { answer_box: box, organic_results: entries(organic), related_questions: entries(peopleAlsoAsk) };
}

function entries(list: unknown): SerpEntry[] {
  return Array.isArray(list) ? list.filter(isObject).map(entry) : [];
}

function entry(value: Readonly<Record<string, unknown>>): SerpEntry {
  return Object.fromEntries(['title', 'question', 'snippet'].flatMap((key) => (typeof value[key] === 'string' ? [[key, value[key]]] : [])));
}
