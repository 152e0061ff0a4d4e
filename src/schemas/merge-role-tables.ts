/** Puts one table of roles over another. The schema of the tables is in `roles-config.ts`: reading a command line needs none of it. */
import type { RoleTable, RoleTables } from './roles-config.ts';

/** The keys that choose the model for a role; they belong together. */
const WHO: readonly (keyof RoleTable)[] = ['use', 'base_url', 'model', 'api_key_var'];

/** The keys of a table that remain when another table names a different model: the limits. A model in this process has no use for a cache. */
export function limitsBeside(before: Readonly<Record<string, unknown>>, next: Readonly<Record<string, unknown>>): Record<string, unknown> {
  if (next['use'] === undefined && next['base_url'] === undefined) return { ...before };
  const dropped: readonly string[] = next['use'] === 'builtin' || next['use'] === 'policy' ? [...WHO, 'cache'] : WHO;
  return Object.fromEntries(Object.entries(before).filter(([key]) => !dropped.includes(key)));
}

/** `over` wins, key by key; the keys that choose the model are replaced together. */
export function mergeRoleTables(base: RoleTables, over: RoleTables): RoleTables {
  const merged: Record<string, RoleTable> = { ...base };
  for (const [role, table] of Object.entries(over)) merged[role] = { ...limitsBeside(merged[role] ?? {}, table), ...table };
  return merged;
}
