/** Looked at before anything is sampled: a server that takes no adapter would go on serving the base, whatever is trained. */
import { ConfigError, PolicyError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import { askAdapterRoutes } from '../../launch/adapter-routes.ts';
import { HttpEndpoint } from '../../transport/http-endpoint.ts';

export interface AdapterServer {
  /** Of every replica. */
  readonly baseUrls: readonly string[];
  readonly apiKey: string | null;
}

/** A server under full load takes seconds to answer. */
const ANSWER_MS = 60_000;

/** Throws ConfigError where a replica takes no adapters, PolicyError where it does not answer. */
export async function assertTakesAdapters({ baseUrls, apiKey }: AdapterServer, signal: AbortSignal): Promise<void> {
  for (const baseUrl of baseUrls) {
    const endpoint = new HttpEndpoint({
      baseUrl: baseUrl.replace(/\/+$/, '').replace(/\/v1$/, ''),
      headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
      connections: 1,
      makeError: (message, options) => new PolicyError(`${message}; check that the server runs and the URL is right`, options),
    });
    try {
      const { kind } = await askAdapterRoutes(endpoint, { timeoutMs: ANSWER_MS, maxRetries: 3, random: Random.fromSeed(0), signal });
      if (kind !== 'missing' && kind !== 'disabled') continue;
      const lack = kind === 'missing' ? 'VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment' : '--enable-lora';
      throw new ConfigError(
        `Expected a server that takes adapters while it runs, but ${endpoint.url} was started without ${lack}; vf-doctor prints the command that starts one which fits`,
      );
    } finally {
      await endpoint.close();
    }
  }
}
