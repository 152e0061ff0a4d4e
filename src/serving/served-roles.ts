/** The models of an environment's roles for rollouts whose policy a caller owns. */
import type { Disposers } from '../core/disposers.ts';
import type { Environment } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import type { RoleModels } from '../core/model.ts';
import type { Surroundings } from '../sessions/surroundings.ts';
import { openRoles } from '../sessions/roles/open-roles.ts';
import type { ResolvedRole } from '../sessions/roles/resolve-roles.ts';

/** A function that gives them, or throws ConfigError: no server can be called if a role is bound to a policy that the caller owns. */
export async function callerModels(
  roles: readonly ResolvedRole[],
  environment: Environment,
  { warn, secrets, signal }: Surroundings,
  opened: Disposers,
): Promise<() => RoleModels | null> {
  if (roles.length === 0) return () => null;
  const own = roles.find(({ player }) => player.kind === 'policy');
  if (own !== undefined) {
    return () => {
      throw new ConfigError(
        `The role ${own.role} is bound to the policy, which the caller owns, so there is no server to ask. Bind it to a model (--role ${own.role}=MODEL@URL), or let the server ask the policy (POST /v1/rollouts).`,
      );
    };
  }
  const policy = {
    name: 'caller',
    client: () => {
      throw new ConfigError('The caller owns the policy');
    },
    capabilities: { kind: 'chat', maxModelLen: null, tokenizerHash: null, logProbsMode: 'none' },
  } as const;
  const { models, notices } = opened.use(
    await openRoles(roles, {
      policy,
      images: environment.images,
      onNotice: warn,
      secrets,
      signal,
    }),
  );
  notices.forEach(warn);
  return () => models;
}
