/** Finds out before the first rollout whether a policy server answers, which model it serves, and whether it supports token ids or only chat. */
import { PolicyError, TimeoutError } from '../../core/errors.ts';
import { HttpEndpoint } from '../../transport/http-endpoint.ts';
import { redactUrl } from '../../transport/redact.ts';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import type { SettingNames } from '../setting-names.ts';
import { type EndpointTarget, keySettingOf } from './policy-target.ts';
import { BASELINE } from './providers.ts';

/** A running server lists its models at once, and the user should not wait minutes for one that is down. */
const REACH_DEADLINE_MS = 5_000;

export interface AskServerOptions {
  /** Also finds out how images become tokens, for an environment that shows some. @default false */
  readonly images?: boolean;
  readonly names: SettingNames;
  readonly signal: AbortSignal;
}

/** Throws PolicyError if a server cannot be reached or rejects the key, ConfigError if it does not serve the model. */
export async function askServer(target: EndpointTarget, { images = false, names, signal }: AskServerOptions): Promise<PolicyProbe> {
  await Promise.all(target.baseUrls.map((baseUrl) => assertReachable(baseUrl, target, { names, signal })));
  const { baseUrls, apiKey, keyVariable, headers, model, clientType } = target;
  if (clientType === 'chat' && model !== null) {
    const unknown = { maxModelLen: null, tokenizerHash: null, hasChatTemplate: null } as const;
    return { kind: 'chat', model, ...unknown, logProbsMode: 'none', chatOnlyBecause: 'the endpoint is configured as a chat endpoint' };
  }
  const { probeReplicas } = await import('../../clients/vllm-probe.ts');
  const key = {
    keySetting: keySettingOf(target, names),
    ...(apiKey === null ? {} : { apiKey }),
    ...(keyVariable === null ? {} : { apiKeyVariable: keyVariable }),
  };
  const probe = await probeReplicas({ baseUrls, model, headers, images, signal, ...key });
  return clientType === 'chat' && probe.kind === 'tokens'
    ? { ...probe, kind: 'chat', chatOnlyBecause: 'the endpoint is configured as a chat endpoint' }
    : probe;
}

async function assertReachable(
  baseUrl: string,
  { apiKey, headers, chosenBy, isOfRequest = false }: EndpointTarget,
  { names, signal }: AskServerOptions,
): Promise<void> {
  const endpoint = new HttpEndpoint({
    baseUrl,
    headers: apiKey === null ? headers : { authorization: `Bearer ${apiKey}`, ...headers },
    connections: 1,
    makeError: (message, options) => new PolicyError(message, options),
  });
  const deadline = AbortSignal.timeout(REACH_DEADLINE_MS);
  try {
    // Any status shows that the server answers; the probe interprets it.
    await endpoint.request({ method: 'GET', path: '/models', signal: AbortSignal.any([signal, deadline]) });
  } catch (cause) {
    if (signal.aborted) throw cause;
    const url = redactUrl(baseUrl);
    const remedy = isOfRequest
      ? 'start the server or correct the URL'
      : `start the server, correct the URL, or use ${names.given({ provider: BASELINE })} to play without a model`;
    if (deadline.aborted)
      throw new TimeoutError(`The policy server at ${url} (${chosenBy}) did not answer within ${REACH_DEADLINE_MS / 1000} s; ${remedy}`, {
        cause,
      });
    const why = cause instanceof Error ? (/ did not answer: (.*)$/s.exec(cause.message)?.[1] ?? cause.message) : String(cause);
    throw new PolicyError(`The policy server at ${url} (${chosenBy}) cannot be reached: ${why}; ${remedy}`, { cause });
  } finally {
    await endpoint.close();
  }
}
