/** Settings among the arguments of an environment, such as `group_size` of grpo-000, as a layer of a run's configuration. */
import { ConfigError } from '../../core/errors.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import { environmentTrainingSettings, type TrainingSetting } from '../../registry/training-settings.ts';
import { configKeys, configTable, nestedTable } from '../../schemas/config-keys.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';
import { type ConfigLayer, PRESET_SOURCE } from '../../trainer/config/resolve-config.ts';

const SOURCE = 'environment.args';
const KEYS = configKeys(configTable(trainingConfigSchema));

export interface ArgumentSettingsOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The changes to every layer that a user writes, such as paths made absolute. */
  readonly completed: (layer: ConfigLayer) => ConfigLayer;
}

/**
 * The layers with one more behind those of presets: the settings that the environment's arguments stand for. It overrides a preset. Throws ConfigError if a
 * file or a flag gives such a setting another value.
 * @param layers lowest first
 */
export async function withArgumentSettings(layers: readonly ConfigLayer[], options: ArgumentSettingsOptions): Promise<readonly ConfigLayer[]> {
  const lastPreset = layers.findLastIndex(({ source }) => source.startsWith(PRESET_SOURCE));
  const [defaults, own] = [layers.slice(0, lastPreset + 1), layers.slice(lastPreset + 1)];
  const settings = await settingsOf(layers, options);
  if (settings.length === 0) return layers;
  const ofPreset = await settingsOf(defaults, options);
  const added = settings.map(({ key, value }) => options.completed({ source: SOURCE, table: nestedTable(key, value) }));
  settings.forEach((setting, i) => {
    if (ofPreset.some(({ key, value }) => key === setting.key && value === setting.value)) return;
    assertAgrees(setting, valueAt(added[i]!.table, setting.key), own);
  });
  return [...defaults, ...added, ...own];
}

async function settingsOf(layers: readonly ConfigLayer[], { env }: ArgumentSettingsOptions): Promise<readonly TrainingSetting[]> {
  const { id, args } = environmentOf(layers);
  // A missing environment is reported by the code that loads it.
  if (id === null || Object.keys(args).length === 0 || environmentIfFound(id) === null) return [];
  const settingOf = (key: string): unknown =>
    layers.map(({ table }) => valueAt(table, key)).findLast((value) => value !== undefined) ?? KEYS.find(({ path }) => path === key)?.schema.default;
  return environmentTrainingSettings(id, args, { env, settingOf });
}

/** The arguments of an environment no longer apply after a layer that names another one. */
function environmentOf(layers: readonly ConfigLayer[]): { readonly id: string | null; readonly args: Readonly<Record<string, unknown>> } {
  let [id, args]: [string | null, Record<string, unknown>] = [null, {}];
  for (const { table } of layers) {
    const { id: next, args: given } = fieldsOf(table['environment']);
    if (typeof next === 'string') [id, args] = [next, id === null || next === id ? args : {}];
    args = { ...args, ...fieldsOf(given) };
  }
  return { id, args };
}

function assertAgrees({ argument, key }: TrainingSetting, value: unknown, own: readonly ConfigLayer[]): void {
  for (const { source, table } of own) {
    const other = valueAt(table, key);
    if (other === undefined || other === value) continue;
    throw new ConfigError(
      `${key} is ${JSON.stringify(other)} (${source}), but the environment's argument ${argument} sets it to ${JSON.stringify(value)}. Leave one of the two out.`,
    );
  }
}

function valueAt(table: Readonly<Record<string, unknown>>, key: string): unknown {
  return key.split('.').reduce<unknown>((inner, name) => (isObject(inner) ? inner[name] : undefined), table);
}
