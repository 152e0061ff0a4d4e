/** Checks the `[roles.judge]` tables of a TOML file. */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { allowedText, type KeySchema } from '../../schemas/config-keys.ts';
import { isObject } from '../../schemas/is-object.ts';
import { roleTableSchema, type RoleTables } from '../../schemas/roles-config.ts';

const KEYS: Readonly<Record<string, KeySchema>> = roleTableSchema.properties;

/** Throws a ConfigError that names the key, without strings, which may be secrets. */
export function checkRoleTables(value: unknown, where: string): RoleTables {
  if (!isObject(value)) throw new ConfigError(`${where} must be a table of roles, such as [roles.judge] with use = "builtin".`);
  for (const [role, table] of Object.entries(value)) {
    if (!isObject(table)) throw new ConfigError(`${where}: role ${role} must be a table, such as [roles.${role}] with use = "builtin".`);
    for (const [key, inner] of Object.entries(table)) {
      const schema = Object.hasOwn(KEYS, key) ? KEYS[key] : undefined;
      if (schema === undefined) {
        const known = Object.keys(KEYS);
        throw new ConfigError(`Unknown key ${key} of role ${role} in ${where}${suggestion(key, known)}; known are ${known.join(', ')}.`);
      }
      if (fits(schema, inner)) continue;
      const shown = typeof inner === 'number' || typeof inner === 'boolean' ? `, got ${inner}` : '';
      throw new ConfigError(`${key} of role ${role} in ${where} must be ${allowedText(schema)}${shown}.`);
    }
  }
  return value as RoleTables;
}

/** Written by hand, because loading Ajv would slow down parsing of the command line. */
function fits(schema: KeySchema, value: unknown): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some((choice) => fits(choice, value));
  if (schema.enum !== undefined) return (schema.enum as readonly unknown[]).includes(value);
  if (schema.type === 'boolean') return typeof value === 'boolean';
  if (schema.type === 'array') return Array.isArray(value) && value.length > 0 && value.every((item) => fits({ type: 'string' }, item));
  if (schema.type === 'object') return isObject(value);
  if (schema.type === 'string') return typeof value === 'string' && value !== '';
  const { minimum = -Infinity, exclusiveMinimum = -Infinity } = schema;
  const isNumber = schema.type === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value);
  return isNumber && (value as number) >= minimum && (value as number) > exclusiveMinimum;
}
