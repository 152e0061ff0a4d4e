/** What an environment says of its roles, checked by shape: an environment need not be written in TypeScript. */
import { ConfigError } from '../core/errors.ts';
import type { RoleDeclaration, RoleDeclarations } from '../core/model.ts';
import { isObject } from '../schemas/is-object.ts';

/** Keys of TOML tables, and names of metrics. */
const ROLE_NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** Throws ConfigError; `where` names who declared them. Nothing declared is no role. */
export function checkRoleDeclarations(value: unknown, where: string): RoleDeclarations {
  if (value === undefined) return {};
  if (!isObject(value))
    throw new ConfigError(`The roles of ${where} are not an object. Write roles = { judge: { about: "...", default: "builtin", builtin } }.`);
  for (const [role, declaration] of Object.entries(value)) {
    const problem = ROLE_NAME.test(role) ? declarationProblem(declaration) : 'its name must be lower-case letters, digits, - and _, a letter first';
    if (problem !== null) throw new ConfigError(`Role ${JSON.stringify(role)} of ${where} cannot be used: ${problem}.`);
  }
  return value as RoleDeclarations;
}

function declarationProblem(value: unknown): string | null {
  if (!isObject(value)) return 'it is not an object';
  const { about, default: fallback, builtin } = value as Partial<Record<keyof RoleDeclaration, unknown>>;
  if (typeof about !== 'string' || about.trim() === '') return 'about must say in a sentence what the model is asked for';
  if (fallback !== null && fallback !== 'builtin' && fallback !== 'policy')
    return `default must be "builtin", "policy" or null, not ${JSON.stringify(fallback)}`;
  if (builtin === undefined) return fallback === 'builtin' ? 'its default is "builtin", but it declares no builtin model' : null;
  const { generate, name } = builtin as { generate?: unknown; name?: unknown };
  return typeof generate === 'function' && typeof name === 'string' && name !== ''
    ? null
    : 'its builtin is not a Model, which has a name and generate()';
}
