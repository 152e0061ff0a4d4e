/** The gateway of a run whose environment asks the policy: agents find the policy of their rollout there. */
import type { Environment } from '../core/environment.ts';
import { Gateway } from '../server/gateway/gateway.ts';

/** Null for an environment that asks no policy or is played by episodes. The caller closes it. */
export async function gatewayOf(environments: Iterable<Pick<Environment, 'asksPolicy'>>): Promise<Gateway | null> {
  for (const { asksPolicy = false } of environments) if (asksPolicy) return Gateway.open();
  return null;
}
