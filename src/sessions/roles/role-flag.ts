/** Parses `--role judge=<alias, URL, model@URL, builtin or policy>`, or one key of its table, `--role judge.max_tokens=4096`, into a table of the configuration. */
import { ConfigError } from '../../core/errors.ts';
import { jsonOrText } from '../../core/read-json.ts';
import { namesPrototype } from '../../schemas/nesting.ts';
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
  const [name, key] = role.split(/\.(.*)/s);
  if (namesPrototype({ [name!]: key === undefined ? null : Object.fromEntries(key.split('.').map((part) => [part, null])) }))
    throw new ConfigError(`${flag} names __proto__, which no role and no key is called.`);
  return { [name!]: key === undefined ? roleTableOf(who) : keyOf(role, key, { who, flag }) };
}

/** Values are JSON, or else text. A key that the table lacks is refused where the roles are resolved. */
function keyOf(role: string, key: string, { who, flag }: { readonly who: string; readonly flag: string }): RoleTable {
  const [first, ...inner] = key.split('.');
  if (inner.length > 1 || key.endsWith('.') || (inner.length === 1 && first !== 'sampling'))
    throw new ConfigError(`${flag} sets one key of a role, such as judge.max_tokens=4096 or judge.sampling.top_p=0.9, got ${JSON.stringify(role)}.`);
  const value = jsonOrText(who);
  return { [first!]: inner.length === 0 ? value : { [inner[0]!]: value } };
}

/** The table of a role that is bound by one word: an alias, `URL`, `MODEL@URL`, `builtin` or `policy`. */
export function roleTableOf(who: string): RoleTable {
  if (/^https?:\/\//i.test(who)) return { base_url: who };
  const at = who.search(/@https?:\/\//i);
  return at > 0 ? { model: who.slice(0, at), base_url: who.slice(at + 1) } : { use: who };
}
