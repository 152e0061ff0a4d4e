/**
 * The settings in which runs differ, and what to call runs by them: `lr 1e-4, seed 2`. Takes the recorded configuration of any run, of an evaluation (`config` in
 * metadata.json) or of a training (config.toml), and knows nothing else of them.
 */
import { isObject } from '../schemas/is-object.ts';
import { canonicalJson } from './canonical-json.ts';
import { settingNumber } from './setting-number.ts';

export type RecordedSettings = Readonly<Record<string, unknown>>;

export interface DifferingSetting {
  /** Dotted, snake_case: `optimizer.learning_rate`. */
  readonly key: string;
  /** The shortest end of the key that names no other of these settings, or its usual abbreviation: `lr`. */
  readonly name: string;
  /** One for each run, for people: `1e-4`; null where the run does not set it. */
  readonly values: readonly (string | null)[];
  /** The same as recorded; undefined where the run does not set it. */
  readonly recorded: readonly unknown[];
}

export interface LabelledSetting {
  /** Names from the outermost table inwards. */
  readonly path: readonly string[];
  readonly value: unknown;
}

export interface NamedRun {
  /** For people; null if it has none. */
  readonly name: string | null;
  readonly settings: RecordedSettings;
}

/** Settings that change no result: the run's name, where its files go, and where a server of the same model is. */
const PLACES =
  /^(?:name|output_dir|logging|checkpoint|publish|policy\.(?:base_url|api_key_var|keep_adapter)|roles\.[^.]+\.(?:base_url|api_key_var))(?:\.|$)/;
const SHORT: Readonly<Record<string, string>> = { learning_rate: 'lr', rollouts_per_example: 'rollouts', max_staleness: 'staleness' };
/** An evaluation records the arguments that were given and, under this, those that the environment made of them. */
const RESOLVED_ARGUMENTS = /^environment\.arguments\./;
const MOST_CHARACTERS = 24;
/** More settings than this are counted in a label. */
const MOST_NAMED = 4;

/** In the order of the first run's settings, the seed last; empty for one run. An argument of the environment is named once, although an evaluation records it twice. */
export function differingSettings(runs: readonly RecordedSettings[]): DifferingSetting[] {
  const flat = runs.map((settings) => new Map(flattenedSettings(settings)));
  const keys = [...new Set(flat.flatMap((settings) => [...settings.keys()]))].filter((key) => !PLACES.test(key));
  const seen = new Set<string>();
  const differing = keys.flatMap((key) => {
    const values = flat.map((settings) => settings.get(key));
    const sign = JSON.stringify([key.replace(RESOLVED_ARGUMENTS, 'env_args.'), values]);
    if (values.every((value) => value === values[0]) || seen.has(sign)) return [];
    seen.add(sign);
    return [{ key, values }];
  });
  const ordered = differing.toSorted((a, b) => Number(a.key === 'seed') - Number(b.key === 'seed'));
  const names = shortNames(ordered.map(({ key }) => key));
  return ordered.map(({ key, values }, i) => {
    const recorded = values.map((value) => (value === undefined ? undefined : (JSON.parse(value) as unknown)));
    return { key, name: names[i]!, values: shortened(recorded.map((value) => (value === undefined ? null : valueText(value)))), recorded };
  });
}

/** For each run the settings that differ, `lr 1e-4, seed 2`; empty if nothing does. */
export function settingLabels(runs: readonly RecordedSettings[]): string[] {
  const differing = differingSettings(runs);
  const more = differing.length > MOST_NAMED ? `, and ${differing.length - MOST_NAMED} more` : '';
  const text = (run: number) => differing.slice(0, MOST_NAMED).map(({ name, values }) => `${name} ${values[run] ?? 'unset'}`);
  return runs.map((_, run) => `${text(run).join(', ')}${more}`);
}

/**
 * What to call each run among the others: its name; if others have the same name, or none either, with the settings in which these differ. Empty if nothing tells
 * runs apart.
 */
export function runLabels(runs: readonly NamedRun[]): string[] {
  return runs.map((run) => {
    const alike = runs.filter(({ name }) => name === run.name);
    if (run.name !== null && alike.length === 1) return run.name;
    const peers = alike.length === 1 ? runs : alike;
    const label = settingLabels(peers.map(({ settings }) => settings))[peers.indexOf(run)]!;
    return [run.name, run.name === null || label === '' ? label : `(${label})`].filter((part) => part !== null && part !== '').join(' ');
  });
}

/** Equal for runs that differ in nothing but their seed. */
export function seedlessSettings(settings: RecordedSettings): string {
  const kept = flattenedSettings(settings).filter(([key]) => key !== 'seed' && !PLACES.test(key));
  return canonicalJson(Object.fromEntries(kept));
}

/** `topk 3, temperature 0`: all of these settings, whole. */
export function settingLabel(settings: readonly LabelledSetting[]): string {
  const names = shortNames(settings.map(({ path }) => path.join('.')));
  return settings.map(({ value }, i) => `${names[i]!} ${valueText(value)}`).join(', ');
}

/**
 * Leaves as canonical JSON. Null and absent are the same but in `sampling_args`, where null leaves a field of the request out and an absent one is the environment's.
 */
/** Dotted keys and values in JSON; a setting without a value is left out. @param path of the table, with a dot at its end. @default the whole configuration */
export function flattenedSettings(settings: RecordedSettings, path = ''): [key: string, value: string][] {
  return Object.entries(settings).flatMap(([name, value]): [string, string][] => {
    if (value === undefined || (value === null && path !== 'sampling_args.')) return [];
    if (isObject(value)) return flattenedSettings(value, `${path}${name}.`);
    return [[`${path}${name}`, canonicalJson(value)]];
  });
}

function shortNames(keys: readonly string[]): string[] {
  return keys.map((key) => {
    const parts = key.split('.');
    const isOwn = (end: string) => keys.every((other) => other === key || !`.${other}`.endsWith(`.${end}`));
    const ends = parts.map((_, i) => parts.slice(parts.length - 1 - i).join('.'));
    const end = ends.find(isOwn) ?? key;
    return SHORT[end] ?? end;
  });
}

/** Long values lose their ends, or their beginnings where these tell them apart. */
function shortened(values: readonly (string | null)[]): (string | null)[] {
  const cut = (from: number, to: number, text: (kept: string) => string) =>
    values.map((value) => {
      const characters = Array.from(value ?? '');
      return value === null || characters.length <= MOST_CHARACTERS ? value : text(characters.slice(from, to).join(''));
    });
  const beginnings = cut(0, MOST_CHARACTERS - 1, (kept) => `${kept}…`);
  return new Set(beginnings).size === new Set(values).size ? beginnings : cut(1 - MOST_CHARACTERS, Infinity, (kept) => `…${kept}`);
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? value : typeof value === 'number' ? settingNumber(value) : canonicalJson(value);
}
