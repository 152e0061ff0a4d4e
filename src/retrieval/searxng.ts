/** A SearXNG server (https://docs.searxng.org/dev/search_api.html), one request per query. Its settings must allow the format json. It gives no ids and no scores. */
import { ConfigError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { webPassages } from './web-passages.ts';
import { queryString, WebRetriever, type WebRetrieverOptions } from './web-retriever.ts';

export class SearxngRetriever extends WebRetriever {
  /** `baseUrl` has no default: name a server, with user and password for Basic auth if it requires them. Throws ConfigError without one. */
  constructor({ baseUrl = '', ...options }: WebRetrieverOptions) {
    if (baseUrl === '') throw new ConfigError('SearXNG needs the URL of a server. Set SEARXNG_URL.');
    super(
      {
        name: 'searxng',
        baseUrl,
        headers: {},
        method: 'GET',
        path: '/search',
        refusal: 'allow the format json under search.formats in its settings.yml, or check the password',
        refusesWithPage: true,
        expected: 'an object with a list "results"',
        request: (q) => queryString(q, { format: 'json' }),
        passages: (json, topk) => (isObject(json) && Array.isArray(json['results']) ? webPassages(json['results'], 'content', topk) : null),
      },
      options,
    );
  }
}
