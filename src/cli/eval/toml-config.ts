/**
 * Several runs in one file: settings for all runs at the top, `[[eval]]` for one run each, `[[ablation]]` for a sweep. The format is that of verifiers v0, except that an
 * unknown key is an error.
 */
import { ConfigError } from '../../core/errors.ts';
import { mergeRoleTables } from '../../schemas/merge-role-tables.ts';
import { isObject } from '../../schemas/is-object.ts';
import { asRunName } from '../../schemas/run-name.ts';
import { assertKnownKeys, readToml, tablesOf, typeOf } from '../../files/toml-text.ts';
import { expandAblation, refuseEqualRuns } from '../../sessions/expand-ablation.ts';
import { checkRoleTables } from '../../sessions/roles/check-role-tables.ts';
import { keyOf, type Option } from '../options/option.ts';
import { DISPLAY, EVAL_OPTIONS, type Settings } from './eval-options.ts';
import { shellCommand } from '../../reports/text/own-command.ts';

export interface PlannedRun {
  /** Its name in the file, or its swept values; null for a run without a name. */
  readonly name: string | null;
  readonly envId: string;
  readonly settings: Settings;
  /** Roles of `settings` that the file sets for all of its runs, and not for this one: an environment may lack them. @default none */
  readonly sharedRoles?: readonly string[];
}

type Table = Readonly<Record<string, unknown>>;

/** Other names of options: v0's, and `sampling` and `args`, which read better as tables. */
const ALIASES: Readonly<Record<string, string>> = {
  args: 'env_args',
  sampling: 'sampling_args',
  headers: 'header',
  endpoint_id: 'model',
  id: 'env_id',
  roles: 'role',
};
const RUN_OPTIONS: ReadonlyMap<string, readonly [name: string, option: Option]> = new Map(
  Object.entries<Option>(EVAL_OPTIONS).flatMap(([name, option]) =>
    option.group === DISPLAY || name === 'name' ? [] : [[keyOf(name), [name, option]]],
  ),
);
const RUN_KEYS = [...RUN_OPTIONS.keys(), ...Object.keys(ALIASES).filter((key) => key !== 'id')];
/** Options whose tables are merged key by key: first the file's, then the run's, then the sweep's. */
const MERGED = ['envArgs', 'extraEnvKwargs', 'samplingArgs', 'header'] as const;

export async function readTomlConfig(path: string): Promise<readonly PlannedRun[]> {
  const document = await readToml(path);
  for (const key of ['env_id', 'id', 'name']) {
    if (document[key] === undefined) continue;
    throw new ConfigError(
      `${key} stands at the top of ${path}. Write it below [[eval]], which begins a run; what stands at the top applies to every run.`,
    );
  }
  if (isObject(document['environment']) || typeof document['preset'] === 'string')
    throw new ConfigError(`${path} is a file of trainings: it names an [environment] or a preset. Run it with ${shellCommand(['vf-train', path])}.`);
  assertKnownKeys(document, [...RUN_KEYS, 'eval', 'ablation'], path);
  const { eval: _evals, ablation: _ablations, ...globalTable } = document;
  const globals = settingsOf(globalTable, path);
  const evals = tablesOf(document, 'eval', path).map((table, i) => plannedRun(table, globals, `[[eval]] ${i + 1} of ${path}`));
  const ablations = tablesOf(document, 'ablation', path).flatMap((table, i) => expand(table, globals, `[[ablation]] ${i + 1} of ${path}`));
  const runs = [...evals, ...ablations];
  if (runs.length === 0) throw new ConfigError(`${path} has no [[eval]] or [[ablation]] table with an env_id`);
  return runs;
}

function plannedRun(table: Table, globals: Settings, where: string): PlannedRun {
  assertKnownKeys(table, ['env_id', 'id', 'name', ...RUN_KEYS], where);
  const { env_id, id, name, ...rest } = table;
  const envId = env_id ?? id;
  if (typeof envId !== 'string' || envId === '') throw new ConfigError(`env_id in ${where} must name an environment, got ${typeOf(envId)}`);
  const own = settingsOf(rest, where);
  const sharedRoles = Object.keys(globals.role ?? {}).filter((role) => !(role in (own.role ?? {})));
  return {
    name: name === undefined ? null : EVAL_OPTIONS.name.check(name, `name in ${where}`),
    envId,
    settings: merge(globals, own),
    ...(sharedRoles.length === 0 ? {} : { sharedRoles }),
  };
}

/** One run per combination of the swept values. */
function expand(table: Table, globals: Settings, where: string): PlannedRun[] {
  if (isObject(table['sweep'])) {
    const names = Object.keys(table['sweep']).map((key) => [key.split('.')[0]!, null] as const);
    assertKnownKeys(Object.fromEntries(names), ['env_id', 'id', ...RUN_KEYS], `the sweep of ${where}`);
  }
  const runs = expandAblation(table, { where, nameOf: (key) => ALIASES[key] ?? key }).map(({ table: combined, label }) => {
    const run = plannedRun(combined, globals, where);
    return { run, label };
  });
  refuseEqualRuns(
    runs.map(({ run, label }) => ({ label, settings: { ...run, name: null } })),
    where,
  );
  return runs.map(({ run, label }) => ({
    ...run,
    name: asRunName([run.name, label].filter((part) => part !== null).join(': ')),
  }));
}

function settingsOf(table: Table, where: string): Settings {
  const settings: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(table)) {
    const name = ALIASES[key] ?? key;
    const [setting, option] = RUN_OPTIONS.get(name)!;
    if (setting in settings) throw new ConfigError(`${where} sets ${name} under two names: ${namesOf(name, table).join(' and ')}. Leave one out.`);
    const spelling = `${key} in ${where}`;
    settings[setting] = setting === 'role' ? checkRoleTables(value, spelling) : option.check(value, spelling);
  }
  return settings;
}

/** `over` takes precedence; tables are merged one level deep. */
function merge(base: Settings, over: Settings): Settings {
  const merged: Record<string, unknown> = { ...base, ...over };
  for (const name of MERGED) if (base[name] && over[name]) merged[name] = { ...base[name], ...over[name] };
  if (base.role && over.role) merged['role'] = mergeRoleTables(base.role, over.role);
  return merged;
}

function namesOf(name: string, table: Table): string[] {
  return Object.keys(table).filter((key) => (ALIASES[key] ?? key) === name);
}
