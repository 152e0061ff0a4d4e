/** Puts one table of roles over another. The schema of the tables is in `roles-config.ts`: reading a command line needs none of it. */
import type { RoleTable, RoleTables } from './roles-config.ts';

/** The keys that choose the model for a role; they belong together. */
const WHO: readonly (keyof RoleTable)[] = ['use', 'base_url', 'model', 'api_key_var'];
/** The keys that say how a server or the policy is asked. */
export const ASKED_WITH = ['sampling', 'reasoning_effort', 'max_tokens'] as const satisfies readonly (keyof RoleTable)[];

/** The keys of a table that remain when another table names a different model: limits and fields of the request, those that the other model has a use for. */
export function limitsBeside(before: Readonly<Record<string, unknown>>, next: Readonly<Record<string, unknown>>): Record<string, unknown> {
  if (next['use'] === undefined && next['base_url'] === undefined) return { ...before };
  const dropped: readonly string[] =
    next['use'] === 'builtin' ? [...WHO, 'cache', 'stream', ...ASKED_WITH] : next['use'] === 'policy' ? [...WHO, 'cache', 'stream'] : WHO;
  return Object.fromEntries(Object.entries(before).filter(([key]) => !dropped.includes(key)));
}

/** `over` wins, key by key, also within `sampling`; the keys that choose the model are replaced together. */
export function mergeRoleTables(base: RoleTables, over: RoleTables): RoleTables {
  const merged: Record<string, RoleTable> = { ...base };
  for (const [role, table] of Object.entries(over)) {
    const before: RoleTable = limitsBeside(merged[role] ?? {}, table);
    const sampling = before.sampling === undefined || table.sampling === undefined ? {} : { sampling: { ...before.sampling, ...table.sampling } };
    merged[role] = { ...before, ...table, ...sampling };
  }
  return merged;
}
