import type { Environment } from '../../core/environment.ts';
import { EVALUATION_DEFAULTS as DEFAULTS } from '../evaluation/evaluation-request.ts';
import { PROPERTY_NAMES, type SettingNames } from '../setting-names.ts';
import type { Surroundings } from '../surroundings.ts';
import { localPolicy } from './local-model.ts';
import { type OpenedPolicy, openPolicy, type OpenPolicyOptions } from './open-policy.ts';
import { namedPolicy, playedBy } from './played-by.ts';
import type { PolicySpec } from './policy-spec.ts';
import { secretsOf } from './secrets.ts';

export interface OpenNamedPolicyOptions extends Partial<Pick<OpenPolicyOptions, 'seed' | 'maxRetries' | 'maxConcurrent' | 'maxWaitMs'>> {
  /** Null for any conversation. */
  readonly environment: Environment | null;
  readonly surroundings: Surroundings;
  /** The caller's names for its settings. @default those of properties */
  readonly names?: SettingNames;
}

/** Opens the policy that a caller in code names, downloaded from the hub if necessary. */
export async function openNamedPolicy(
  spec: PolicySpec,
  { environment, surroundings, names = PROPERTY_NAMES, ...options }: OpenNamedPolicyOptions,
): Promise<OpenedPolicy> {
  const { variables, secrets, signal } = surroundings;
  const { seed = DEFAULTS.seed, maxRetries = DEFAULTS.maxRetries, maxConcurrent = DEFAULTS.maxConcurrent, maxWaitMs } = options;
  const played = environment ?? { id: 'conversation', turnFormat: 'chat' as const };
  const request = { environment: played.id, policy: await localPolicy(spec, surroundings) };
  const named = await namedPolicy(request, { variables, names });
  const target = playedBy(played, named, request, names);
  if (target.kind === 'endpoint') for (const secret of secretsOf({ servers: [target] })) secrets.add(secret);
  return openPolicy(target, { seed, maxRetries, maxConcurrent, maxWaitMs, environment: played, names, variables, signal });
}
