/** `[roles.*]` at the top of a file: each run takes the roles that its environment has, and a role that no environment of the file has is refused. */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import type { RoleTables } from '../../schemas/roles-config.ts';
import type { PlannedRun } from './toml-config.ts';

export class SharedRoles {
  readonly #runs: readonly PlannedRun[];
  readonly #rolesOf: (run: PlannedRun) => Promise<readonly string[]>;
  /** Roles by environment and arguments, as far as they are known. */
  readonly #known = new Map<string, readonly string[]>();

  /** `rolesOf` loads a run's environment: it is asked only if a run meets a role that no environment so far has. */
  constructor(runs: readonly PlannedRun[], rolesOf: (run: PlannedRun) => Promise<readonly string[]>) {
    this.#runs = runs;
    this.#rolesOf = rolesOf;
  }

  /** The run's tables without shared ones that its environment has no role for. Throws UnknownSharedRoleError. */
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
      // An environment that does not load is reported by its own run.
      const roles = await this.#rolesOf(run).catch((): readonly string[] => []);
      this.#known.set(keyOf(run), roles);
      if (roles.includes(role)) return true;
    }
    return false;
  }

  #refusal(role: string): UnknownSharedRoleError {
    const known = [...new Set([...this.#known.values()].flat())];
    const list = known.length === 0 ? 'They have no roles' : `Their roles are ${known.join(', ')}`;
    return new UnknownSharedRoleError(`No environment of the file has a role ${role}${suggestion(role, known)}. ${list}.`);
  }
}

/** True of every run of the file. */
export class UnknownSharedRoleError extends ConfigError {}

function keyOf({ envId, settings }: PlannedRun): string {
  return JSON.stringify([envId, settings['env-args'], settings['extra-env-kwargs'], settings['env-dir-path']]);
}
