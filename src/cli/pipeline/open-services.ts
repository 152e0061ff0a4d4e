/** Chooses what a pipeline's servers ask: an OpenAI-compatible chat API, a search server, BM25, or the web. */
import { ConfigError } from '../../core/errors.ts';
import type { ServiceOpeners } from '../../pipelines/service-openers.ts';
import type { CommandContext } from '../command-line.ts';
import { loadEnvironmentFile } from '../environment-file.ts';

/** UltraRAG's variable for the key of the chat API. */
const KEY_VARIABLE = 'LLM_API_KEY';

export function openServices(context: CommandContext): ServiceOpeners {
  loadEnvironmentFile('.env', process.env);
  return {
    chat: async ({ baseUrl, model, apiKey = process.env[KEY_VARIABLE], concurrency, retries }) => {
      if (apiKey) context.secrets.add(apiKey);
      const [{ OpenAIChatClient }, { PolicyVersions }] = await Promise.all([
        import('../../clients/openai-chat.ts'),
        import('../../clients/policy-versions.ts'),
      ]);
      return new OpenAIChatClient({
        baseUrls: [baseUrl],
        versions: new PolicyVersions({ version: 0, model }),
        ...(apiKey && { apiKey }),
        apiKeyVariable: KEY_VARIABLE,
        maxConcurrentRequests: concurrency,
        maxRetries: retries,
      });
    },
    search: async (service) => {
      if ('url' in service) return openSearchServer(service.url);
      const { openRetriever } = await import('../../registry/open-retriever.ts');
      if ('web' in service) return openRetriever({ engine: 'serper', env: process.env, signal: context.signal });
      return openRetriever({ corpus: service.corpus, env: process.env, signal: context.signal });
    },
  };
}

/** A URL that ends in `/retrieve` speaks Search-R1's protocol; of any other, the path becomes `/search`, as in UltraRAG. */
async function openSearchServer(text: string) {
  const url = URL.parse(text);
  if (url === null) throw new ConfigError(`The retriever URL ${JSON.stringify(text)} is not a URL; write http://host:port`);
  const { HttpRetriever } = await import('../../retrieval/http-retriever.ts');
  if (/\/retrieve\/?$/.test(url.pathname)) return new HttpRetriever({ url: text });
  url.pathname = '/search';
  return new HttpRetriever({ url: url.href, protocol: 'search' });
}
