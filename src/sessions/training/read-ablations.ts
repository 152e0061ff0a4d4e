/** The `[[ablation]]` tables of a training's configuration file, each as the runs that it describes: every combination of the swept settings, with every seed. */
import { basename } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import type { LabelledSetting } from '../../core/setting-differences.ts';
import { readExtendedToml } from '../../files/extended-toml.ts';
import { tablesOf, typeOf } from '../../files/toml-text.ts';
import { nestedTable } from '../../schemas/config-keys.ts';
import { isObject } from '../../schemas/is-object.ts';
import { isRunName, nameEndingIn, RUN_NAME_TITLE } from '../../schemas/run-name.ts';
import type { ConfigLayer } from '../../trainer/config/resolve-config.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { expandAblation } from '../expand-ablation.ts';
import { shellCommand } from '../../reports/text/own-command.ts';

type Table = Readonly<Record<string, unknown>>;

export interface AblationRun {
  /** That of the ablation with its own settings: unique in the file. */
  readonly name: string;
  /** `lr 0.001, seed 0`, free of secrets. */
  readonly label: string;
  /** The settings that the runs of the ablation do not share; `seed` is one. */
  readonly values: readonly LabelledSetting[];
  /** Its settings over those of the file. `preset` may be among them. */
  readonly layer: ConfigLayer;
}

export interface Ablation {
  readonly name: string;
  /** `[[ablation]] 1 of runs.toml` */
  readonly where: string;
  readonly runs: readonly AblationRun[];
}

/** True if the file describes several trainings. A file of evaluations has such tables too, and names the environments in them. */
function isTrainingAblation({ ablation }: Table): boolean {
  return Array.isArray(ablation) && ablation.length > 0 && !ablation.some((table) => isObject(table) && ('env_id' in table || 'id' in table));
}

/** The tables of a training's file. Throws ConfigError for a file of evaluations, and for one of several trainings where one is meant. */
export function trainingDocument(path: string, isOneOfSeveral: boolean): Table {
  const document = readExtendedToml(path);
  const runs = ['eval', 'ablation'].find((key) => Array.isArray(document[key]));
  if (runs === undefined || (isTrainingAblation(document) && isOneOfSeveral)) return document;
  if (runs === 'ablation' && isTrainingAblation(document))
    throw new ConfigError(`${path} describes several trainings ([[ablation]]). Run them with ${shellCommand(['vf-train', path])}.`);
  throw new ConfigError(`${path} is an evaluation file ([[${runs}]]). Run it with ${shellCommand(['vf-eval', path])}.`);
}

/** Empty for a file without `[[ablation]]`, and for one of evaluations. Throws ConfigError for tables that describe no runs. */
export function readAblations(path: string): readonly Ablation[] {
  const document = readExtendedToml(path);
  if (!isTrainingAblation(document)) return [];
  const { name } = document;
  const shared = typeof name === 'string' ? name : basename(path, '.toml');
  const ablations = tablesOf(document, 'ablation', path).map((table, i) => ablationOf(table, shared, `[[ablation]] ${i + 1} of ${path}`));
  const names = ablations.map((ablation) => ablation.name);
  const twice = names.findIndex((each, i) => names.indexOf(each) !== i);
  if (twice !== -1)
    throw new ConfigError(`${ablations[twice]!.where} has the name of an earlier one, "${names[twice]}". Give each a name of its own.`);
  return ablations;
}

function ablationOf(table: Table, shared: string, where: string): Ablation {
  const { name = shared, seeds, sweep, ...fixed } = table;
  if (typeof name !== 'string' || !isRunName(name)) throw new ConfigError(`name in ${where} must be ${RUN_NAME_TITLE}, got ${JSON.stringify(name)}`);
  const settings = Object.entries(fixed).reduce<Table>((before, [key, value]) => merged(before, nestedTable(key, value)), {});
  const swept = seeds === undefined ? sweep : { ...sweepWithoutSeed(sweep, settings, where), seed: seedList(seeds, where) };
  if (swept === undefined) throw new ConfigError(`${where} has neither seeds nor [ablation.sweep], so there is nothing to compare. Add one of them.`);
  const runs = expandAblation({ ...settings, sweep: swept }, { where });
  refuseSecrets(runs[0]!.values, where);
  return {
    name,
    where,
    runs: runs.map(({ table: own, values, label }, i) => ({
      name: runName(name, label, i + 1),
      label,
      values,
      layer: { source: where, table: own },
    })),
  };
}

function sweepWithoutSeed(sweep: unknown, settings: Table, where: string): Table {
  if (sweep !== undefined && !isObject(sweep)) throw new ConfigError(`[ablation.sweep] in ${where} must be a table of lists, got ${typeOf(sweep)}`);
  const other = isObject(sweep) && 'seed' in sweep ? 'sweep.seed' : 'seed' in settings ? 'seed' : null;
  if (other !== null) throw new ConfigError(`${where} has both seeds and ${other}. Leave one out.`);
  return isObject(sweep) ? sweep : {};
}

function seedList(seeds: unknown, where: string): readonly number[] {
  const listed = typeof seeds === 'number' && seeds <= MOST_SEEDS ? Array.from({ length: Math.max(0, Math.floor(seeds)) }, (_, i) => i) : seeds;
  const isWhole = typeof seeds !== 'number' || Number.isInteger(seeds);
  if (isWhole && Array.isArray(listed) && listed.length > 0 && listed.every((seed) => Number.isSafeInteger(seed) && seed >= 0)) return listed;
  throw new ConfigError(
    `seeds in ${where} must be a list of whole numbers such as [0, 1, 2], or their count from 1 to ${MOST_SEEDS}, got ${JSON.stringify(seeds)}`,
  );
}

const MOST_SEEDS = 1000;

/** Records and tables would show all of its values as `***`, so nobody could tell the runs apart. */
function refuseSecrets(values: readonly LabelledSetting[], where: string): void {
  const secret = values.find(({ path, value }) => JSON.stringify(hideSecrets(value, path.at(-1))) !== JSON.stringify(value));
  if (secret === undefined) return;
  throw new ConfigError(
    `${secret.path.join('.')} in ${where} is swept, but its values are secret, so no table could tell the runs apart. Set it once.`,
  );
}

/** `two rates: lr 0.001, seed 0`. One that is too long, or has a value that no name may hold, ends with the place of the run. */
function runName(ablation: string, label: string, place: number): string {
  const name = `${ablation}: ${label}`;
  return isRunName(name) ? name : nameEndingIn(name, `… ${place}`);
}

function merged(base: Table, own: Table): Table {
  const both = Object.entries(own).map(([key, value]) => [key, isObject(base[key]) && isObject(value) ? merged(base[key], value) : value] as const);
  return { ...base, ...Object.fromEntries(both) };
}
