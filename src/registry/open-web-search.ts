/** Opens a web search engine by name, with a cache, a rate limit and retries. Engines are imported only when chosen. */
import { ConfigError } from '../core/errors.ts';
import type { Retriever } from '../retrieval/retriever.ts';
import { withTransport } from '../transport/transport-settings.ts';
import type { SearchPace } from './search-pace.ts';

export const WEB_PROVIDERS = ['serper', 'google', 'searxng'] as const;

type WebProvider = (typeof WEB_PROVIDERS)[number];

export interface WebSearchOptions extends SearchPace {
  /** `serper`: Google through serper.dev; `google`: Google's Custom Search API; `searxng`: a server of your own. */
  readonly provider: WebProvider;
  /** @default `SERPER_API_KEY` or `GOOGLE_API_KEY` */
  readonly apiKey?: string;
  /** The id of a Google search engine (`cx`). @default `GOOGLE_CSE_ID` */
  readonly searchEngineId?: string;
  /** @default `SERPER_BASE_URL` or `GOOGLE_CSE_BASE_URL`, else the provider's own; `SEARXNG_URL` */
  readonly baseUrl?: string;
  /** Delay before the first retry; it doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Maximum of concurrent requests. @default 8 */
  readonly concurrency?: number;
  /** Number of searches that may wait for their turn. @default 1000 */
  readonly maxQueued?: number;
  /** Queries whose passages are kept. @default 20000 */
  readonly cacheEntries?: number;
  /** @default the variables of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Throws ConfigError for an unknown provider or a missing key.
 * @example const retriever = await openWebSearch({ provider: 'searxng', baseUrl: 'http://127.0.0.1:8888', perSecond: 5 });
 */
export async function openWebSearch(options: WebSearchOptions): Promise<Retriever> {
  const { perSecond = Infinity, maxQueued, cacheEntries } = options;
  const { env = process.env } = options;
  const opening = withTransport({ variables: env }, () => openProvider({ ...options, env }));
  const [provider, { cached }] = await Promise.all([opening, import('../retrieval/cached.ts')]);
  const limited = perSecond === Infinity ? provider : await spaced(provider, perSecond, maxQueued);
  return cached(limited, cacheEntries === undefined ? {} : { maxEntries: cacheEntries });
}

async function spaced(retriever: Retriever, perSecond: number, maxQueued: number | undefined): Promise<Retriever> {
  const { rateLimited } = await import('../retrieval/rate-limited.ts');
  return rateLimited(retriever, { perSecond, ...(maxQueued === undefined ? {} : { maxQueued }) });
}

async function openProvider({
  provider,
  apiKey,
  searchEngineId,
  baseUrl,
  env,
  ...options
}: WebSearchOptions & Required<Pick<WebSearchOptions, 'env'>>) {
  const { perSecond: _rate, maxQueued: _queue, cacheEntries: _entries, ...web } = options;
  const at = (variable: string) => {
    const url = baseUrl ?? env[variable];
    return url ? { ...web, baseUrl: url } : web;
  };
  switch (provider) {
    case 'serper': {
      const { SerperRetriever } = await import('../retrieval/serper.ts');
      return new SerperRetriever({ ...at('SERPER_BASE_URL'), apiKey: apiKey ?? env['SERPER_API_KEY'] ?? '' });
    }
    case 'google': {
      const { GoogleRetriever } = await import('../retrieval/google.ts');
      const id = searchEngineId ?? env['GOOGLE_CSE_ID'] ?? '';
      return new GoogleRetriever({ ...at('GOOGLE_CSE_BASE_URL'), apiKey: apiKey ?? env['GOOGLE_API_KEY'] ?? '', searchEngineId: id });
    }
    case 'searxng': {
      const { SearxngRetriever } = await import('../retrieval/searxng.ts');
      return new SearxngRetriever(at('SEARXNG_URL'));
    }
    default:
      throw new ConfigError(`The web search engine must be one of ${WEB_PROVIDERS.join(', ')}, got ${JSON.stringify(provider)}`);
  }
}
