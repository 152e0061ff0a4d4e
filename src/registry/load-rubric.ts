/** Loads a rubric from a module of the user: `export const rubric = new Rubric(...)`, or `export function createRubric({ environment })`. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Environment } from '../core/environment.ts';
import { ConfigError, thrownText, VfError } from '../core/errors.ts';
import type { RoleDeclarations } from '../core/model.ts';
import type { Rubric } from '../core/rubric.ts';
import { importEnvironment } from './import-environment.ts';

export interface LoadedRubric {
  readonly rubric: Rubric;
  /** Roles that the module exports as `roles`, in addition to the environment's. */
  readonly roles: RoleDeclarations;
}

/** Throws ConfigError if the module does not exist, does not load, or exports no rubric. */
export async function loadRubric(path: string, environment: Environment): Promise<LoadedRubric> {
  if (!existsSync(path)) throw new ConfigError(`The file ${path} does not exist. Name a module that exports a rubric.`);
  let rubric: unknown;
  let roles: unknown;
  try {
    const module = await importEnvironment(resolve(path), { isOwn: false });
    const create = module['createRubric'];
    rubric = typeof create === 'function' ? await (create as (given: object) => unknown)({ environment }) : module['rubric'];
    roles = module['roles'] ?? {};
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`The rubric ${path} did not load: ${thrownText(cause)}`, { cause });
  }
  if (isRubric(rubric)) return { rubric, roles: roles as RoleDeclarations };
  throw new ConfigError(
    `${path} exports no rubric. Export "rubric", such as export const rubric = new Rubric({ funcs: [...] }), or a function createRubric that returns one.`,
  );
}

/** Checks for the methods that scoring calls, not for this package's class. */
function isRubric(value: unknown): value is Rubric {
  const { settleGroup, names } = (value ?? {}) as Partial<Rubric>;
  return typeof settleGroup === 'function' && Array.isArray(names);
}
