/** Trainings with equal settings but for the seed, as groups, and the settings in which the groups differ. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { differingSettings, flattenedSettings, type RecordedSettings, seedlessSettings, settingLabels } from '../../core/setting-differences.ts';
import { recordedRunName } from '../../schemas/run-name.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { TrainingGroup } from '../../schemas/training-comparison.ts';
import type { ComparedTraining } from './compared-training.ts';
import { evaluatedEnvironment } from '../../core/reward-scale.ts';

interface Group extends Pick<TrainingGroup, 'settings' | 'label' | 'run' | 'environment'> {
  /** Recorded settings of its first run on file; null without any. */
  readonly config: RecordedSettings | null;
  readonly members: readonly ComparedTraining[];
}

/** In the order of their first runs. */
export function groupTrainings(runs: readonly ComparedTraining[]): readonly Group[] {
  const keyed = runs.map((run) => ({ run, settings: settingsOf(run, runs) }));
  const groups = [...Map.groupBy(keyed, ({ settings }) => seedlessSettings(settings)).values()];
  const firsts = groups.map(([first]) => ({ ...first!.settings, seed: null }));
  const differing = differingSettings(firsts);
  const labels = settingLabels(firsts);
  return groups.map((group, i) => ({
    settings: Object.fromEntries(differing.map(({ key, recorded }) => [key, recorded[i] ?? null])),
    label: labels[i]!,
    run: sharedName(group.map(({ run }) => run)),
    ...environmentOf(group.map(({ run }) => run)),
    members: group.map(({ run }) => run),
  }));
}

/** Runs of an ablation have names that their settings make, and one that was given none has that of environment and model. */
function sharedName(runs: readonly ComparedTraining[]): string | null {
  const [first] = runs as [ComparedTraining];
  const isGiven = recordedRunName(first, first.config) !== null;
  return isGiven && runs.every(({ name, swept }) => name === first.name && Object.keys(swept).length === 0) ? first.name : null;
}

function environmentOf(runs: readonly ComparedTraining[]): Pick<Group, 'config' | 'environment'> {
  const { config = null } = runs.find((run) => run.config !== null) ?? {};
  return { config, environment: evaluatedEnvironment(config).id };
}

/** A run without a folder has those of another run of its ablation that this one does not sweep, and its own by dotted key. */
function settingsOf({ config, swept }: ComparedTraining, runs: readonly ComparedTraining[]): RecordedSettings {
  if (config !== null) return config;
  const sibling = runs.find((run) => run.config !== null && canonicalJson(Object.keys(run.swept)) === canonicalJson(Object.keys(swept)));
  return { ...(sibling?.config && withoutKeys(sibling.config, new Set(flattenedSettings(sibling.swept).map(([key]) => key)))), ...swept };
}

/** @param path of the table, with a dot at its end */
function withoutKeys(settings: RecordedSettings, keys: ReadonlySet<string>, path = ''): RecordedSettings {
  const kept = Object.entries(settings).filter(([name]) => !keys.has(`${path}${name}`));
  return Object.fromEntries(kept.map(([name, value]) => [name, isObject(value) ? withoutKeys(value, keys, `${path}${name}.`) : value]));
}
