/** Opens the policy server that a request names, as an evaluation does, and binds the environment's roles. */
import { settingRemedy } from '../sessions/environment/environment-file.ts';
import { Disposers } from '../core/disposers.ts';
import type { Environment } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import { assertPlayable } from '../rollouts/assert-playable.ts';
import type { PolicyAddress, ServedPoliciesOptions, ServedPolicy } from '../server/environment/served-policies.ts';
import type { Surroundings } from '../sessions/surroundings.ts';
import { openPolicy } from '../sessions/policy/open-policy.ts';
import type { EndpointTarget } from '../sessions/policy/policy-target.ts';
import { type ReadSampling, readSampling, samplingFor } from '../sessions/policy/sampling.ts';
import { secretsOf } from '../sessions/policy/secrets.ts';
import { PROPERTY_NAMES } from '../sessions/setting-names.ts';
import { openRoles, rolePolicyOf } from '../sessions/roles/open-roles.ts';
import type { ResolvedRole } from '../sessions/roles/resolve-roles.ts';

export interface ServedPolicyParts {
  readonly environment: Environment;
  readonly roles: readonly ResolvedRole[];
  /** The greatest number of requests in flight to one policy. */
  readonly maxConcurrent: number;
  /** The name of the policy in requests, for errors. @default 'policy' */
  readonly field?: string;
}

/** The parts that `ServedPolicies` needs. */
export function policiesOf(parts: ServedPolicyParts, surroundings: Surroundings): Pick<ServedPoliciesOptions, 'open' | 'readSampling'> {
  return {
    open: (address, signal) => openServedPolicy(address, parts, surroundings, signal),
    readSampling: (fields, kind) => servedSampling(fields, kind),
  };
}

/** The sampling of a policy that answers a server's callers. One by token ids gets every field. */
export function servedSampling(fields: Readonly<Record<string, unknown>>, kind: PolicyAddress['kind'] = 'auto'): ReadSampling {
  return samplingFor(readSampling({ sampling: fields }, PROPERTY_NAMES), { kind: 'tokens', leavesOut: kind === 'chat' }, PROPERTY_NAMES);
}

async function openServedPolicy(
  address: PolicyAddress,
  { environment, roles, maxConcurrent, field = 'policy' }: ServedPolicyParts,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<ServedPolicy> {
  const target = endpointOf(address, field, surroundings.variables);
  for (const secret of secretsOf({ servers: [target] })) surroundings.secrets.add(secret);
  await using opened = new Disposers();
  const { version, cacheSalt } = address;
  const policy = opened.use(
    await openPolicy(target, {
      environment,
      seed: 0,
      maxRetries: 3,
      maxConcurrent,
      names: PROPERTY_NAMES,
      variables: surroundings.variables,
      version,
      ...(cacheSalt === undefined ? {} : { cacheSalt }),
      signal,
    }),
  );
  assertPlayable(environment, policy.client);
  const bound =
    roles.length === 0
      ? null
      : opened.use(
          await openRoles(roles, {
            policy: rolePolicyOf(policy),
            images: environment.images,
            onNotice: surroundings.warn,
            secrets: surroundings.secrets,
            signal,
          }),
        );
  const disposer = opened.move();
  return { client: policy.client, models: bound?.models ?? null, [Symbol.asyncDispose]: () => disposer.disposeAsync() };
}

function endpointOf(
  { baseUrl, model, keyVariable, isKeyNeeded = true, headers = {}, kind }: PolicyAddress,
  field: string,
  variables: Surroundings['variables'],
): EndpointTarget {
  const apiKey = keyVariable === null ? null : variables[keyVariable] || null;
  if (apiKey === null && keyVariable !== null && isKeyNeeded) {
    throw new ConfigError(
      `The environment variable ${keyVariable} (${field}.api_key_var) holds no API key in the server's process; ${settingRemedy(keyVariable)}`,
    );
  }
  return {
    kind: 'endpoint',
    model,
    baseUrls: [baseUrl],
    apiKey,
    keyVariable,
    headers,
    clientType: kind,
    alias: null,
    chosenBy: `${field}.base_url`,
    isOfRequest: true,
    keySetting: `${field}.api_key_var`,
  };
}
