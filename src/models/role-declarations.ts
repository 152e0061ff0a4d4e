/** Checks an environment's role declarations at run time, because an environment need not be written in TypeScript. */
import { ConfigError } from '../core/errors.ts';
import type { RoleDeclaration, RoleDeclarations } from '../core/model.ts';
import { isObject } from '../schemas/is-object.ts';

/** Role names are keys of TOML tables and parts of metric names. */
const ROLE_NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** The declarations, none if undefined. Throws ConfigError if one is unusable; `where` names the environment. */
export function checkRoleDeclarations(value: unknown, where: string): RoleDeclarations {
  if (value === undefined) return {};
  if (!isObject(value))
    throw new ConfigError(`The roles of ${where} are not an object. Write roles = { judge: { about: "...", default: "builtin", builtin } }.`);
  for (const [role, declaration] of Object.entries(value)) {
    const problem = ROLE_NAME.test(role)
      ? declarationProblem(declaration)
      : 'its name must start with a lower-case letter and may contain lower-case letters, digits, - and _';
    if (problem !== null) throw new ConfigError(`Role ${JSON.stringify(role)} of ${where} cannot be used: ${problem}.`);
  }
  return value as RoleDeclarations;
}

function declarationProblem(value: unknown): string | null {
  if (!isObject(value)) return 'it is not an object';
  const { about, default: fallback, builtin } = value as Partial<Record<keyof RoleDeclaration, unknown>>;
  if (typeof about !== 'string' || about.trim() === '') return 'about must describe what the model does';
  if (fallback !== null && fallback !== 'builtin' && fallback !== 'policy')
    return `default must be "builtin", "policy" or null, not ${JSON.stringify(fallback)}`;
  if (builtin === undefined) return fallback === 'builtin' ? 'its default is "builtin", but it declares no builtin model' : null;
  const { generate, name } = builtin as { generate?: unknown; name?: unknown };
  return typeof generate === 'function' && typeof name === 'string' && name !== ''
    ? null
    : 'its builtin is not a Model with a name and a method generate()';
}
