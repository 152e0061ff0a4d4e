import type { Environment } from '../../core/environment.ts';
import { SMALLEST_MODEL } from '../../data/bundled-models.ts';
import { PROPERTY_NAMES } from '../setting-names.ts';
import type { Surroundings } from '../surroundings.ts';
import { laptopModelOf } from './laptop-model.ts';
import { localModel } from './local-model.ts';
import { type OpenedPolicy, openPolicy, type OpenPolicyOptions } from './open-policy.ts';
import type { PolicySpec } from './policy-spec.ts';
import { resolvePolicyTarget } from './policy-target.ts';
import { EMBEDDED } from './providers.ts';

export interface OpenNamedPolicyOptions extends Pick<OpenPolicyOptions, 'seed' | 'maxRetries' | 'maxConcurrent'> {
  /** Null for any conversation. */
  readonly environment: Environment | null;
  readonly surroundings: Surroundings;
}

/** Opens the policy that a caller in code names, downloaded from the hub if necessary. */
export async function openNamedPolicy(spec: PolicySpec, { environment, surroundings, ...options }: OpenNamedPolicyOptions): Promise<OpenedPolicy> {
  const { variables, signal } = surroundings;
  const bundledModel = async () => (environment === null ? null : await laptopModelOf(environment.id, {})) ?? SMALLEST_MODEL;
  const isEmbedded = spec.provider === EMBEDDED && spec.model !== undefined;
  const local = isEmbedded ? { ...spec, model: await localModel(spec.model, surroundings) } : spec;
  const target = await resolvePolicyTarget(local, { variables, names: PROPERTY_NAMES, bundledModel });
  const played = environment ?? { id: 'conversation', turnFormat: 'chat' as const };
  return openPolicy(target, { ...options, environment: played, names: PROPERTY_NAMES, variables, signal });
}
