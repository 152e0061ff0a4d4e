/** Chooses the players of roles for rewards that are computed again: the model that the user names, else the replies that the run recorded. */
import { ConfigError, ModelError } from '../../core/errors.ts';
import type { Model, RoleDeclarations } from '../../core/model.ts';
import type { RoleTables } from '../../schemas/roles-config.ts';

export interface ScoreRoles {
  /** With a model for every role, so that none must be bound. */
  readonly declarations: RoleDeclarations;
  /** Roles whose calls only the record answers. */
  readonly recordedOnly: ReadonlySet<string>;
}

/** `recorded`: by role, the name of the model that played it. Throws ConfigError for a role that the policy of the run is to play. */
export function scoreRoles(declared: RoleDeclarations, tables: RoleTables, recorded: Readonly<Record<string, string>>): ScoreRoles {
  for (const [role, { use }] of Object.entries(tables)) {
    if (use === 'policy')
      throw new ConfigError(`vf-score plays no policy, so role ${role} cannot be bound to it. Name a server: --role ${role}=MODEL@URL.`);
  }
  const recordedOnly = new Set<string>();
  const declarations = Object.entries(declared).map(([role, declaration]) => {
    const isBound = tables[role]?.use !== undefined || tables[role]?.base_url !== undefined;
    const own = declaration.default === 'builtin' ? declaration.builtin?.name : undefined;
    if (isBound || (own !== undefined && own === (recorded[role] ?? own))) return [role, declaration] as const;
    recordedOnly.add(role);
    return [role, { ...declaration, default: 'builtin' as const, builtin: unasked(role, recorded[role] ?? null) }] as const;
  });
  return { declarations: Object.fromEntries(declarations), recordedOnly };
}

/** Fails every call, so that verdicts of another model are not mixed with those of the recorded one. */
function unasked(role: string, recorded: string | null): Model {
  const who = recorded === null ? 'No model plays it' : `${recorded} played it in the run`;
  return {
    name: recorded ?? role,
    generate: () =>
      Promise.reject(
        new ModelError(
          `Role ${role} has no recorded reply to this request. ${who}. Name the model to ask: --role ${role}=${recorded?.replace(/ \{.*/s, '') ?? 'MODEL'}@URL.`,
          {
            role,
            reason: 'not_set_up',
          },
        ),
      ),
  };
}
