/** Checks that each role of the environment is bound to a model, and that the models' servers answer. */
import type { RoleDeclarations } from '../core/model.ts';
import { ConfigError, VfError } from '../core/errors.ts';
import type { RoleTables } from '../schemas/roles-config.ts';
import { askRoleServer } from '../sessions/roles/ask-role-server.ts';
import { resolvedRoleText } from '../sessions/roles/open-roles.ts';
import { type ResolvedRole, resolveRoles } from '../sessions/roles/resolve-roles.ts';
import { type Finding, missing, ok, warning } from '../sessions/finding.ts';

export interface RoleCheckOptions {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export async function checkRoles(
  declarations: RoleDeclarations,
  tables: RoleTables,
  { variables, signal }: RoleCheckOptions,
): Promise<readonly Finding[]> {
  try {
    const roles = await resolveRoles(declarations, tables, { variables });
    return await Promise.all(roles.map((role) => roleFinding(role, signal)));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [missing('roles', error.message, 'correct [roles] in the configuration')];
  }
}

async function roleFinding(resolved: ResolvedRole, signal: AbortSignal): Promise<Finding> {
  const { role, player } = resolved;
  const text = `${role}: ${resolvedRoleText(resolved)}`;
  if (player.kind !== 'endpoint') return ok('role', text);
  try {
    const { notice } = await askRoleServer(role, player, signal);
    return notice === null ? ok('role', text) : warning('role', notice, `set roles.${role}.model to a model that it lists`);
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    return missing('role', error.message, `correct [roles.${role}] in the configuration, or start the server`);
  }
}
