import type { RoleTable } from '../../schemas/roles-config.ts';

/** The table of a role that is bound by one word: an alias, `URL`, `MODEL@URL`, `builtin` or `policy`. */
export function roleTableOf(who: string): RoleTable {
  if (/^https?:\/\//i.test(who)) return { base_url: who };
  const at = who.search(/@https?:\/\//i);
  return at > 0 ? { model: who.slice(0, at), base_url: who.slice(at + 1) } : { use: who };
}
