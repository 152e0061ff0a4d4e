/** Puts one table of roles over another. The schema of the tables is in `roles-config.ts`: reading a command line needs none of it. */
import type { RoleTable, RoleTables } from './roles-config.ts';

/** The keys that choose the model for a role; they belong together. */
const WHO: readonly (keyof RoleTable)[] = ['use', 'base_url', 'model', 'api_key_var'];
/** The keys that say how a server or the policy is asked. */
export const ASKED_WITH = ['sampling', 'reasoning_effort', 'max_tokens'] as const satisfies readonly (keyof RoleTable)[];

/** The keys of a table that remain when another table names a different model: limits and fields of the request, those that the other model has a use for. */
export function limitsBeside(before: Readonly<Record<string, unknown>>, next: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const unused = next['use'] === 'builtin' ? ['cache', 'stream', ...ASKED_WITH] : next['use'] === 'policy' ? ['cache', 'stream'] : [];
  return without(before, next, [...WHO, ...unused]);
}

function without(
  before: Readonly<Record<string, unknown>>,
  next: Readonly<Record<string, unknown>>,
  dropped: readonly string[],
): Record<string, unknown> {
  if (next['use'] === undefined && next['base_url'] === undefined) return { ...before };
  return Object.fromEntries(Object.entries(before).filter(([key]) => !dropped.includes(key)));
}

interface MergeOptions {
  /** True for flags of the same command: a key that the model of a later flag has no use for stays, and is then refused. @default false */
  readonly areOneLayer?: boolean;
}

/** `over` wins, key by key, also within `sampling`; the keys that choose the model are replaced together. */
export function mergeRoleTables(base: RoleTables, over: RoleTables, { areOneLayer = false }: MergeOptions = {}): RoleTables {
  const merged: Record<string, RoleTable> = { ...base };
  for (const [role, table] of Object.entries(over)) {
    const earlier = merged[role] ?? {};
    const before: RoleTable = areOneLayer ? without(earlier, table, WHO) : limitsBeside(earlier, table);
    const sampling = before.sampling === undefined || table.sampling === undefined ? {} : { sampling: { ...before.sampling, ...table.sampling } };
    merged[role] = { ...before, ...table, ...sampling };
  }
  return merged;
}
