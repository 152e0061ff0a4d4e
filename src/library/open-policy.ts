/** `openPolicy` of the library: the policies that `vf-eval` opens, for loops of your own. */
import type { Environment } from '../core/environment.ts';
import type { OpenedPolicy } from '../sessions/policy/open-policy.ts';
import type { PolicySpec } from '../sessions/policy/policy-spec.ts';
import { checkOptions } from './check-options.ts';

export interface OpenPolicyFor {
  /** The environment that the policy will play; it decides how the policy is called. @default any conversation */
  readonly environment?: Environment;
  /** Seeds the baseline and a model in this process. @default 0 */
  readonly seed?: number;
  /** Retries of a request after a transient failure. @default 3 */
  readonly maxRetries?: number;
  /** Requests in flight at once. @default 32 */
  readonly maxConcurrent?: number;
  /** Environment variables, for API keys and such; those of `./.env` are added. @default those of this process */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** Cancels the opening. @default never */
  readonly signal?: AbortSignal;
  /** A line for the user, such as the progress of a download. */
  readonly onNotice?: (line: string) => void;
}

const SPEC: Readonly<Record<keyof PolicySpec, true>> = {
  provider: true,
  baseUrl: true,
  model: true,
  apiKey: true,
  apiKeyVar: true,
  clientType: true,
  headers: true,
  endpointsPath: true,
  price: true,
};

/** Throws ConfigError for a misspelled property. */
export function checkPolicySpec(spec: PolicySpec): void {
  checkOptions('policy', spec, Object.keys(SPEC));
}

/**
 * Opens a policy: a server, a model in this process, or the environment's baseline. A server is asked once which model it serves and whether it supports token
 * ids. Dispose of the policy after use.
 *
 * Rejects with ConfigError for a spec that names no policy, PolicyError or TimeoutError for a server that does not answer.
 * @example
 * await using policy = await openPolicy({ provider: 'embedded', model: 'nano-base' });
 * console.log(policy.model, policy.client.capabilities.kind);
 */
export async function openPolicy(spec: PolicySpec, options: OpenPolicyFor = {}): Promise<OpenedPolicy> {
  checkPolicySpec(spec);
  const [{ openNamedPolicy }, { loadEnvironmentFile }] = await Promise.all([
    import('../sessions/policy/open-named-policy.ts'),
    import('../sessions/environment/environment-file.ts'),
  ]);
  const { environment, seed = 0, maxRetries = 3, maxConcurrent = 32, onNotice } = options;
  const variables: NodeJS.ProcessEnv = { ...(options.variables ?? process.env) };
  loadEnvironmentFile('.env', variables);
  const { signal = new AbortController().signal } = options;
  const surroundings = { variables, signal, secrets: new Set<string>(), warn: (line: string) => onNotice?.(line) };
  return openNamedPolicy(spec, { environment: environment ?? null, seed, maxRetries, maxConcurrent, surroundings });
}
