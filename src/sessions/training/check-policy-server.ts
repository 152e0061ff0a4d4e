/** Checks before sampling that a server returns token ids and accepts adapters: otherwise it would keep serving the base, and the training would have no effect on it. */
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { ConfigError, PolicyError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import { askAdapterRoutes } from '../../launch/adapter-routes.ts';
import { HttpEndpoint } from '../../transport/http-endpoint.ts';
import { serverRoot } from '../../core/server-url.ts';

export interface AdapterServer {
  /** One URL per replica. */
  readonly baseUrls: readonly string[];
  readonly apiKey: string | null;
}

/** A server under full load can take seconds to answer. */
const ANSWER_MS = 60_000;

/** Throws ConfigError if a replica does not accept adapters, PolicyError if it does not answer. */
export async function assertTakesAdapters({ baseUrls, apiKey }: AdapterServer, signal: AbortSignal): Promise<void> {
  for (const baseUrl of baseUrls) {
    const endpoint = new HttpEndpoint({
      baseUrl: serverRoot(baseUrl),
      headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
      connections: 1,
      makeError: (message, options) => new PolicyError(`${message}; check that the server runs and the URL is right`, options),
    });
    try {
      const { kind } = await askAdapterRoutes(endpoint, { timeoutMs: ANSWER_MS, maxRetries: 3, random: Random.fromSeed(0), signal });
      if (kind !== 'missing' && kind !== 'disabled') continue;
      const lack = kind === 'missing' ? 'VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment' : '--enable-lora';
      throw new ConfigError(
        `${endpoint.url} cannot load adapters, because it was started without ${lack}; vf-doctor prints a command that starts a suitable server`,
      );
    } finally {
      await endpoint.close();
    }
  }
}

/**
 * Throws ConfigError if the server returns no token ids, or log-probs that no trainer can reproduce: raw ones are for temperature 1, so ratios, corrections
 * and comparisons with the trainer would mix two distributions.
 */
export function checkPolicyProbe(probe: PolicyProbe, temperature: number): void {
  if (probe.kind !== 'tokens') {
    throw new ConfigError(`Training needs a server that accepts and returns token ids, as vLLM does, but ${probe.chatOnlyBecause}`);
  }
  if (temperature === 1 || probe.logProbsMode !== 'raw') return;
  throw new ConfigError(
    `rollouts.temperature is ${temperature}, but the server returns log-probs at temperature 1; start vLLM with --logprobs-mode processed_logprobs, or set rollouts.temperature = 1`,
  );
}
