/** Google's Custom Search JSON API (https://developers.google.com/custom-search/v1), one request per query, at most 10 results each. It gives no ids and no scores. */
import { ConfigError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { webPassages } from './web-passages.ts';
import { isUsableKey, queryString, WebRetriever, type WebRetrieverOptions } from './web-retriever.ts';

export interface GoogleOptions extends WebRetrieverOptions {
  /** Sent as a header, never logged. */
  readonly apiKey: string;
  /** The id of the search engine (`cx`). */
  readonly searchEngineId: string;
}

/** The API's own limit. */
const MOST_RESULTS = 10;

export class GoogleRetriever extends WebRetriever {
  /** `baseUrl`: https://customsearch.googleapis.com by default. Throws ConfigError for an unusable key or id. */
  constructor({ apiKey, searchEngineId, baseUrl = 'https://customsearch.googleapis.com', ...options }: GoogleOptions) {
    if (!isUsableKey(apiKey)) throw new ConfigError('The Google API key is missing or contains invalid characters. Set GOOGLE_API_KEY.');
    if (!isUsableKey(searchEngineId)) throw new ConfigError('The id of the Google search engine is missing. Set GOOGLE_CSE_ID.');
    super(
      {
        name: 'google',
        baseUrl,
        headers: { 'x-goog-api-key': apiKey },
        method: 'GET',
        path: '/customsearch/v1',
        refusal: 'check GOOGLE_API_KEY and GOOGLE_CSE_ID',
        expected: 'an object with a list "items", or with "searchInformation"',
        request: (q, topk) => queryString(q, { cx: searchEngineId, num: String(Math.min(topk, MOST_RESULTS)) }),
        passages: (json, topk) => {
          if (!isObject(json)) return null;
          const { items, searchInformation } = json;
          // A query without results has no items.
          if (!Array.isArray(items)) return isObject(searchInformation) ? [] : null;
          return webPassages(items, 'snippet', topk);
        },
      },
      options,
    );
  }
}
