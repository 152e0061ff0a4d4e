/** Parses `--role judge=<alias, URL, model@URL, builtin or policy>` into a table of the configuration. */
import { ConfigError } from '../../core/errors.ts';
import type { RoleTables } from '../../schemas/roles-config.ts';
import { roleTableOf } from './role-table.ts';
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
