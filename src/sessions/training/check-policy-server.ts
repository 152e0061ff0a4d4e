/** Checks before sampling that a server returns token ids and accepts adapters: otherwise it would keep serving the base, and the training would have no effect on it. */
import { GENERATE_PATH } from '../../clients/vllm-images.ts';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { ConfigError, PolicyError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import { askAdapterRoutes } from '../../launch/adapter-routes.ts';
import { HttpEndpoint, type HttpRequest } from '../../transport/http-endpoint.ts';
import { withRetries } from '../../transport/retry.ts';
import { serverRoot } from '../../core/server-url.ts';

export interface AdapterServer {
  /** One URL per replica. */
  readonly baseUrls: readonly string[];
  readonly apiKey: string | null;
}

/** A server under full load can take seconds to answer. */
const ANSWER_MS = 60_000;

/** Throws ConfigError if a replica does not accept adapters, PolicyError if it does not answer. */
export async function assertTakesAdapters(server: AdapterServer, signal: AbortSignal): Promise<void> {
  await eachEndpoint(server, async (endpoint) => {
    const { kind } = await askAdapterRoutes(endpoint, { timeoutMs: ANSWER_MS, maxRetries: 3, random: Random.fromSeed(0), signal });
    if (kind !== 'missing' && kind !== 'disabled') return;
    const lack = kind === 'missing' ? 'VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment' : '--enable-lora';
    throw new ConfigError(
      `${endpoint.url} cannot load adapters, because it was started without ${lack}; vf-doctor prints a command that starts a suitable server`,
    );
  });
}

/** Throws ConfigError if a server cannot change the weights under generations or does not say which sampled what (`publish.in_flight`), PolicyError if it does not answer. */
export async function assertChangesInFlight(server: AdapterServer, signal: AbortSignal): Promise<void> {
  await eachEndpoint(server, async (endpoint) => {
    const ask = async (request: Pick<HttpRequest, 'method' | 'path' | 'body'>) => {
      const options = { timeoutMs: ANSWER_MS, maxRetries: 3, random: Random.fromSeed(0), signal };
      return (await withRetries((attemptSignal) => endpoint.request({ ...request, signal: attemptSignal }), options)).status;
    };
    const refuse = (lack: string): never => {
      throw new ConfigError(`publish.in_flight needs a server that changes its weights during a generation, but ${endpoint.url} ${lack}`);
    };
    if ((await ask({ method: 'GET', path: '/is_paused' })) !== 200)
      refuse('has no route /is_paused: start vLLM 0.32 or later with VLLM_SERVER_DEV_MODE=1 in its environment');
    if ((await ask({ method: 'GET', path: '/weight_info' })) !== 200) refuse('has no route /weight_info: use vLLM 0.32 or later');
    // Refused for what it lacks, if the route is there.
    const generate = await ask({ method: 'POST', path: GENERATE_PATH, body: '{}' });
    if (generate !== 400 && generate !== 422)
      refuse(`answers ${generate} to an empty request at ${GENERATE_PATH}: start vLLM 0.32 or later with --enable-scale-out`);
  });
}

async function eachEndpoint({ baseUrls, apiKey }: AdapterServer, check: (endpoint: HttpEndpoint) => Promise<void>): Promise<void> {
  for (const baseUrl of baseUrls) {
    const endpoint = new HttpEndpoint({
      baseUrl: serverRoot(baseUrl),
      headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
      connections: 1,
      makeError: (message, options) => new PolicyError(`${message}; check that the server runs and the URL is right`, options),
    });
    try {
      await check(endpoint);
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
