/** `[roles.*]` tables at the top of a TOML file: each run uses those for roles of its environment; a role that no environment in the file has is an error. */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import type { RoleTables } from '../../schemas/roles-config.ts';
import { openEnvironment } from '../../sessions/environment/open-environment.ts';
import type { Surroundings } from '../../sessions/surroundings.ts';
import { evaluationRequest } from './evaluation-request.ts';
import type { PlannedRun } from './toml-config.ts';

export class SharedRoles {
  readonly #runs: readonly PlannedRun[];
  readonly #surroundings: Pick<Surroundings, 'variables' | 'signal'>;
  /** Roles of the environments loaded so far, by environment and arguments. */
  readonly #known = new Map<string, readonly string[]>();

  /** The environment of a run is loaded only to look up a role that no loaded environment has. */
  constructor(runs: readonly PlannedRun[], surroundings: Pick<Surroundings, 'variables' | 'signal'>) {
    this.#runs = runs;
    this.#surroundings = surroundings;
  }

  /** The run's role tables, without shared ones for roles that its environment lacks. Throws UnknownSharedRoleError. */
  async tablesOf(run: PlannedRun, roles: readonly string[]): Promise<RoleTables> {
    this.#known.set(keyOf(run), roles);
    const tables = run.settings.role ?? {};
    const foreign = Object.keys(tables).filter((role) => run.sharedRoles?.includes(role) === true && !roles.includes(role));
    for (const role of foreign) if (!(await this.#isAnywhere(role))) throw this.#refusal(role);
    return Object.fromEntries(Object.entries(tables).filter(([role]) => !foreign.includes(role)));
  }

  async #isAnywhere(role: string): Promise<boolean> {
    if ([...this.#known.values()].some((roles) => roles.includes(role))) return true;
    for (const run of this.#runs) {
      if (this.#known.has(keyOf(run))) continue;
      // An environment that does not load might have the role; its own run reports the error.
      const roles = await rolesOf(run, this.#surroundings).catch(() => null);
      if (roles === null) return true;
      this.#known.set(keyOf(run), roles);
      if (roles.includes(role)) return true;
    }
    return false;
  }

  #refusal(role: string): UnknownSharedRoleError {
    const known = [...new Set([...this.#known.values()].flat())];
    const list =
      known.length === 0 ? 'They have no roles' : known.length === 1 ? `Their only role is ${known[0]}` : `Their roles are ${known.join(', ')}`;
    return new UnknownSharedRoleError(`No environment in the file has a role ${role}${suggestion(role, known)}. ${list}.`);
  }
}

/** Concerns the whole file, so no further run can succeed. */
export class UnknownSharedRoleError extends ConfigError {}

function keyOf({ envId, settings }: PlannedRun): string {
  return JSON.stringify([envId, settings.envArgs, settings.extraEnvKwargs, settings.envDirPath]);
}

/** Names of the roles that the run's environment has. */
async function rolesOf(run: PlannedRun, { variables, signal }: Pick<Surroundings, 'variables' | 'signal'>): Promise<readonly string[]> {
  const { environment, args = {}, environmentsDir } = evaluationRequest(run);
  const searched = environmentsDir === undefined ? {} : { environmentsDir };
  await using opened = await openEnvironment(environment, args, { ...searched, variables, signal });
  return Object.keys(opened.environment.roles ?? {});
}
