/** Trainings with equal settings but for the seed, as groups, and the settings in which the groups differ. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { TrainingGroup } from '../../schemas/training-comparison.ts';
import { settingLabel } from '../text/setting-label.ts';
import type { ComparedTraining } from './compared-training.ts';

type Table = Readonly<Record<string, unknown>>;

/** They tell runs of one group apart, or say where a run keeps and shows its results. */
const NOT_COMPARED = new Set(['name', 'seed', 'output_dir', 'logging', 'policy.base_url', 'policy.api_key_var']);

interface Group extends Pick<TrainingGroup, 'settings' | 'label'> {
  readonly members: readonly ComparedTraining[];
}

/** In the order of their first runs. */
export function groupTrainings(runs: readonly ComparedTraining[]): readonly Group[] {
  const keyed = runs.map((run) => ({ run, settings: settingsOf(run, runs) }));
  const groups = [...Map.groupBy(keyed, ({ settings }) => canonicalJson(Object.fromEntries(settings))).values()];
  const all = groups.map(([first]) => first!.settings);
  const keys = [...new Set(all.flatMap((settings) => [...settings.keys()]))];
  const differing = keys.filter((key) => new Set(all.map((settings) => canonicalJson(settings.get(key) ?? null))).size > 1);
  return groups.map((group) => {
    const settings = differing.map((key) => ({ path: key.split('.'), value: group[0]!.settings.get(key) ?? null }));
    return {
      settings: Object.fromEntries(settings.map(({ path, value }) => [path.join('.'), value])),
      label: settingLabel(settings),
      members: group.map(({ run }) => run),
    };
  });
}

/** By dotted key. A run without a folder has those of another run of its ablation, with its own over them. */
function settingsOf({ config, swept }: ComparedTraining, runs: readonly ComparedTraining[]): ReadonlyMap<string, unknown> {
  const sibling = runs.find((run) => run.config !== null && canonicalJson(Object.keys(run.swept)) === canonicalJson(Object.keys(swept)));
  const base = config ?? sibling?.config ?? {};
  const settings = new Map(leaves(base, ''));
  if (config === null) for (const [key, value] of Object.entries(swept)) if (!isLeftOut(key)) settings.set(key, value);
  return settings;
}

function* leaves(table: Table, path: string): Generator<[key: string, value: unknown]> {
  for (const [name, value] of Object.entries(table)) {
    const key = path === '' ? name : `${path}.${name}`;
    if (isLeftOut(key)) continue;
    if (isObject(value) && !(value instanceof Date)) yield* leaves(value, key);
    // Null and absent mean the same in a file.
    else if (value !== null && value !== undefined) yield [key, value];
  }
}

function isLeftOut(key: string): boolean {
  return NOT_COMPARED.has(key);
}
