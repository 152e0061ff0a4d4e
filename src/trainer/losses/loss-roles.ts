/**
 * Settings by role (`losses.*.roles`, and β and the weight of `rpg`) against the roles that a run's source plays. Checked before anything is sampled: a wrong name would
 * show only in the first update, when a step has been played in vain.
 */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { PlayedRoles } from '../token-loss.ts';

/** The settings of built-in losses that can be a number for each role. */
const BY_ROLE: Readonly<Record<string, readonly string[]>> = { rpg: ['beta', 'weight'] };

/** The only role of rollouts from an environment's rows, and of demonstrations. */
export const ONE_ROLE: PlayedRoles = { policy: {} };

type Losses = Pick<TrainingConfig, 'algorithm' | 'losses' | 'rolloutsFile'>;
type Args = Readonly<Record<string, unknown>>;

interface LossSettings {
  /** Dotted, as in a file. */
  readonly key: string;
  readonly use: string | undefined;
  readonly args: Args;
  /** The roles that the loss is taken on; null for all. */
  readonly roles: readonly string[] | null;
  readonly played: PlayedRoles;
  /** Rollouts of a file may have any of these roles: each line is checked when it is read. */
  readonly isOpen?: boolean;
}

/**
 * The losses with the source's own names in place of aliases. Throws ConfigError for a role that the source does not play, a loss on roles that are not
 * trained, and a role without a value.
 */
export function withPlayedRoles<C extends Losses>(config: C, played: PlayedRoles): C {
  const { algorithm, losses } = config;
  const { loss } = algorithm;
  const isOpen = config.rolloutsFile !== null;
  const main = checked({ key: 'algorithm.loss', use: loss.use, args: loss.args, roles: null, played, isOpen });
  const further = Object.entries(losses).map(([name, table]) => {
    const { use, args = {}, roles = null, on } = table;
    const own = checked({ key: `losses.${name}`, use, args, roles, played: on === 'demonstrations' ? ONE_ROLE : played, isOpen });
    return [name, { ...table, ...(table.args === undefined ? {} : { args: own.args }), ...(own.roles === null ? {} : { roles: own.roles }) }];
  });
  return {
    ...config,
    algorithm: { ...algorithm, loss: { ...loss, args: main.args } },
    losses: Object.fromEntries(further) as Losses['losses'],
  };
}

/** Throws ConfigError if a loss that is taken on the role has no value for it. For sources that do not say which roles they play. */
export function assertRoleHasValues({ algorithm: { loss }, losses }: Pick<Losses, 'algorithm' | 'losses'>, role: string): void {
  const tables = [
    { key: 'algorithm.loss', use: loss.use, args: loss.args, roles: null },
    ...Object.entries(losses).flatMap(([name, { use, args = {}, roles = null, on }]) =>
      on === 'demonstrations' ? [] : [{ key: `losses.${name}`, use, args, roles }],
    ),
  ];
  for (const table of tables) if (table.roles?.includes(role) ?? true) assertValues({ ...table, played: {} }, [role]);
}

function checked(settings: LossSettings): { readonly args: Args; readonly roles: readonly string[] | null } {
  const { key, use = '', args, roles, played, isOpen = false } = settings;
  const taken = roles?.map((role) => roleNamed(role, { key: `${key}.roles`, played })) ?? null;
  const trained = Object.keys(played).filter((role) => played[role]!.isTrained !== false);
  const own = trained.filter((role) => taken?.includes(role) ?? true);
  if (!isOpen && taken !== null && own.length === 0)
    throw new ConfigError(
      `${key} applies to ${taken.join(', ')}, but this run trains ${trained.join(', ')}; correct ${key}.roles, or leave the loss out`,
    );
  const named = Object.fromEntries(
    Object.entries(args).map(([name, value]) => [
      name,
      isObject(value) && BY_ROLE[use]?.includes(name) === true ? valuesNamed(value, { key: `${key}.args.${name}`, played }) : value,
    ]),
  );
  assertValues({ ...settings, args: named }, isOpen ? [] : own);
  return { args: named, roles: taken };
}

interface Place {
  readonly key: string;
  readonly played: PlayedRoles;
}

function valuesNamed(values: Args, place: Place): Args {
  const named = new Map<string, unknown>();
  for (const [given, value] of Object.entries(values)) {
    const role = roleNamed(given, place);
    if (named.has(role)) throw new ConfigError(`${place.key} names the role ${role} twice, once as ${given}; keep one`);
    named.set(role, value);
  }
  return Object.fromEntries(named);
}

function roleNamed(name: string, { key, played }: Place): string {
  const known = Object.keys(played);
  const role = known.find((each) => each === name || played[each]!.aliases?.includes(name) === true);
  if (role !== undefined) return role;
  throw new ConfigError(`${key} names the role ${JSON.stringify(name)}${suggestion(name, known)}, but this run has ${rolesText(known)}`);
}

function rolesText(roles: readonly string[]): string {
  return roles.length === 1 ? `only the role ${roles[0]}` : `the roles ${roles.join(', ')}`;
}

function assertValues({ key, use = '', args }: LossSettings, roles: readonly string[]): void {
  for (const name of BY_ROLE[use] ?? []) {
    const values = args[name];
    if (!isObject(values)) continue;
    const missing = roles.find((role) => !Object.hasOwn(values, role));
    if (missing !== undefined)
      throw new ConfigError(
        `${key}.args.${name} has no value for the role ${JSON.stringify(missing)}, only for ${Object.keys(values).join(', ') || 'none'}; add one, or give one number for all roles`,
      );
  }
}
