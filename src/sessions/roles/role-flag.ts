/** Parses `--role judge=<alias, URL, model@URL, builtin or policy>` into a table of the configuration. */
import { ConfigError } from '../../core/errors.ts';
import type { RoleTable, RoleTables } from '../../schemas/roles-config.ts';
import { redactUrl } from '../../transport/redact.ts';

/** Throws ConfigError, which shows a URL without its password. */
export function parseRoleFlag(text: string, flag: string): RoleTables {
  const split = text.indexOf('=');
  const [role, who] = [text.slice(0, Math.max(split, 0)).trim(), text.slice(split + 1).trim()];
  if (role === '' || who === '') {
    const example = '--role judge=gpt-4.1-mini@https://api.openai.com/v1';
    throw new ConfigError(`${flag} needs a role and its model, such as ${example}, got ${JSON.stringify(redactUrl(text))}.`);
  }
  return { [role]: roleTableOf(who) };
}

/** The table of a role that is bound by one word: an alias, `URL`, `MODEL@URL`, `builtin` or `policy`. */
export function roleTableOf(who: string): RoleTable {
  if (/^https?:\/\//i.test(who)) return { base_url: who };
  const at = who.search(/@https?:\/\//i);
  return at > 0 ? { model: who.slice(0, at), base_url: who.slice(at + 1) } : { use: who };
}
