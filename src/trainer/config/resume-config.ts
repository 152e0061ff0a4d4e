/**
 * The settings that may change when a run is resumed. A checkpoint holds weights, Adam's moments, the position in the data and the seed. Settings that
 * shaped these or give the next steps their meaning must stay; the places where things run, the files that are kept and the length of the run may change.
 */
import { ConfigError } from '../../core/errors.ts';
import { settingValue } from '../../core/setting-number.ts';
import { configKeys, configTable } from '../../schemas/config-keys.ts';
import { trainingConfigSchema, type TrainingConfigWire } from '../../schemas/training-config.ts';
import { HIDDEN } from './check-config.ts';
import { isObject } from '../../schemas/is-object.ts';

/** Dotted keys; a table means every key in it. */
export const CHANGEABLE_ON_RESUME: readonly string[] = [
  'name',
  'steps',
  'output_dir',
  'policy',
  'publish',
  'backend',
  'evaluation',
  'checkpoint',
  'guards',
  'logging',
  'sft.validate_every',
  'rollouts.max_concurrent',
  'rollouts.timeout_s',
  'rollouts.max_scoring',
  'rollouts.scoring_timeout_s',
  'rollouts.max_retries',
  'rollouts.max_error_rate',
  'rollouts.repeat_pause_s',
  'algorithm.teacher.base_url',
  'algorithm.teacher.api_key_var',
  'algorithm.teacher.max_concurrent',
  'algorithm.teacher.max_retries',
  'algorithm.teacher.timeout_s',
];

/** Keys of each role. Which model plays it decides rewards; where it is served and how fast it is called does not. */
export const CHANGEABLE_ROLE_KEYS: readonly string[] = [
  'base_url',
  'api_key_var',
  'max_concurrent',
  'timeout_s',
  'total_timeout_s',
  'max_retries',
  'budget_calls',
  'budget_tokens',
  'cache',
  'stream',
];

/** In a run of supervised steps alone, this is the length of the run. If steps on rollouts follow, it says where they begin. */
const CHANGEABLE_WITHOUT_ROLLOUTS = ['sft.steps'];

/** Of those that may change: they lead to other weights. */
const SHAPING_PLACES: readonly string[] = ['backend.kind', 'backend.dtype', 'guards.skip_kl'];

/** Changing these steers a run by hand, which requires `allowOptimizer`. */
const CHANGEABLE_ON_PURPOSE: readonly string[] = ['optimizer', 'algorithm', 'sft.learning_rate'];

export interface ConfigDifference {
  /** Dotted, snake_case; for an environment's arguments, down to the argument. */
  readonly key: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly changeable: boolean;
}

/** What a user of a command does to allow changes. */
export const ALLOW_FLAG = 'add --allow-changes';

export interface ResumeOptions {
  /** Also allow changes in [optimizer], [algorithm] and of sft.learning_rate. @default false */
  readonly allowOptimizer?: boolean;
  /** What the caller must do to allow them, for errors. @default 'add --allow-changes' */
  readonly allow?: string;
  /** Dotted keys that were edited in config.toml of the run. @default none */
  readonly edited?: readonly string[];
}

/** Every key that differs, in schema order, the name last. A secret that the record hides matches any value. */
export function describeDifferences(
  before: TrainingConfigWire,
  after: TrainingConfigWire,
  { allowOptimizer = false }: ResumeOptions = {},
): readonly ConfigDifference[] {
  const isSupervised = before.steps === 0 && after.steps === 0;
  const changeable = [
    ...CHANGEABLE_ON_RESUME,
    ...(isSupervised ? CHANGEABLE_WITHOUT_ROLLOUTS : []),
    ...(allowOptimizer ? CHANGEABLE_ON_PURPOSE : []),
  ];
  const mayChange = (key: string) => changeable.some((allowed) => isIn(key, allowed)) || isRoleKey(key);
  return KEYS.flatMap((key) => differencesAt(key, valueAt(before, key), valueAt(after, key))).map((difference) => ({
    ...difference,
    changeable: mayChange(difference.key),
  }));
}

/** True if other values of the setting lead to other weights. @param key dotted; `files.<key>` for the files that a setting names @param settings of the run, which may be of another version */
export function isShaping(key: string, settings: Readonly<Record<string, unknown>>): boolean {
  const isDecaying = (table: string) => {
    const { [table]: options } = settings;
    return isObject(options) && typeof options['schedule'] === 'string' && options['schedule'] !== 'constant';
  };
  // A longer run of a falling learning rate has another rate in each of its steps.
  if (key === 'steps' || key === 'sft.steps') return isDecaying(key === 'steps' ? 'optimizer' : 'sft');
  if (SHAPING_PLACES.includes(key)) return true;
  return !CHANGEABLE_ON_RESUME.some((allowed) => isIn(key, allowed)) && !isRoleKey(key) && !isIn(key, 'files.environment.eval_args');
}

function isRoleKey(key: string): boolean {
  return CHANGEABLE_ROLE_KEYS.includes(/^roles\.[^.]+\.(.+)$/.exec(key)?.[1] ?? '');
}

/** True for the key itself, and for one of its table. */
function isIn(key: string, allowed: string): boolean {
  return key === allowed || key.startsWith(`${allowed}.`);
}

/** Throws ConfigError for the first key that differs but must not. */
export function assertResumable(before: TrainingConfigWire, after: TrainingConfigWire, options: ResumeOptions = {}): void {
  const forbidden = describeDifferences(before, after, options).find(({ changeable }) => !changeable);
  if (forbidden === undefined) return;
  const { key } = forbidden;
  const { allow = ALLOW_FLAG, edited = [] } = options;
  const undo = edited.includes(key) ? 'undo that edit of its config.toml' : 'leave it out';
  const onPurpose = CHANGEABLE_ON_PURPOSE.some((each) => isIn(key, each));
  throw new ConfigError(
    `A resumed run cannot change ${differenceText(forbidden)}; ${undo}${onPurpose ? `, ${allow} to change it anyway,` : ''} or start a new run`,
  );
}

/** `optimizer.learning_rate from 0.001 to 0.0005`. */
export function differenceText({ key, before, after }: ConfigDifference): string {
  return `${key} from ${valueText(before)} to ${valueText(after)}`;
}

/** The name comes last: by default it is derived from other keys, which then say more. */
const KEYS = configKeys(configTable(trainingConfigSchema))
  .map(({ path }) => path)
  .toSorted((a, b) => Number(a === 'name') - Number(b === 'name'));

function differencesAt(key: string, before: unknown, after: unknown): Omit<ConfigDifference, 'changeable'>[] {
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => differencesAt(`${key}.${name}`, before[name], after[name]));
  }
  // Null and absent mean the same to an environment and in a file.
  const same = before === HIDDEN || after === HIDDEN || JSON.stringify(before ?? null) === JSON.stringify(after ?? null);
  return same ? [] : [{ key, before: before ?? null, after: after ?? null }];
}

function valueAt(config: TrainingConfigWire, key: string): unknown {
  return key.split('.').reduce<unknown>((value, part) => (isObject(value) ? value[part] : undefined), config);
}

function valueText(value: unknown): string {
  return value === null ? 'unset' : isObject(value) ? 'a table' : settingValue(value);
}
