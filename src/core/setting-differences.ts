/**
 * The settings in which runs differ, and what to call runs by them: `lr 1e-4, seed 2`. Takes the recorded configuration of any run, of an evaluation (`config` in
 * metadata.json) or of a training (config.toml), and knows nothing else of them.
 */
import { isObject } from '../schemas/is-object.ts';
import { canonicalJson } from './canonical-json.ts';

export type RecordedSettings = Readonly<Record<string, unknown>>;

export interface DifferingSetting {
  /** Dotted, snake_case: `optimizer.learning_rate`. */
  readonly key: string;
  /** The shortest end of the key that names no other of these settings, or its usual abbreviation: `lr`. */
  readonly name: string;
  /** One for each run, for people: `1e-4`; null where the run does not set it. */
  readonly values: readonly (string | null)[];
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
const MOST_CHARACTERS = 24;
/** More settings than this are counted in a label. */
const MOST_NAMED = 4;

/** In the order of the first run's settings; empty for one run. A key that says the same as an earlier one, under the same last part, is left out. */
export function differingSettings(runs: readonly RecordedSettings[]): DifferingSetting[] {
  const flat = runs.map((settings) => new Map(flattened(settings, '')));
  const keys = [...new Set(flat.flatMap((settings) => [...settings.keys()]))].filter((key) => !PLACES.test(key));
  const seen = new Set<string>();
  const differing = keys.flatMap((key) => {
    const values = flat.map((settings) => settings.get(key) ?? null);
    const sign = JSON.stringify([lastPart(key), values]);
    if (values.every((value) => value === values[0]) || seen.has(sign)) return [];
    seen.add(sign);
    return [{ key, values }];
  });
  const ordered = differing.toSorted((a, b) => Number(a.key === 'seed') - Number(b.key === 'seed'));
  return ordered.map(({ key, values }) => ({
    key,
    name: shortName(key, ordered),
    values: values.map((value) => (value === null ? null : valueText(value))),
  }));
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
  const kept = flattened(settings, '').filter(([key]) => key !== 'seed' && !PLACES.test(key));
  return canonicalJson(Object.fromEntries(kept));
}

/** Leaves as canonical JSON; null and absent are the same. */
function flattened(settings: RecordedSettings, path: string): [key: string, value: string][] {
  return Object.entries(settings).flatMap(([name, value]): [string, string][] => {
    if (value === null || value === undefined) return [];
    if (isObject(value)) return flattened(value, `${path}${name}.`);
    return [[`${path}${name}`, canonicalJson(value)]];
  });
}

function lastPart(key: string): string {
  return key.slice(key.lastIndexOf('.') + 1);
}

function shortName(key: string, all: readonly { readonly key: string }[]): string {
  const parts = key.split('.');
  const isOwn = (end: string) => all.every((other) => other.key === key || !`.${other.key}`.endsWith(`.${end}`));
  const ends = parts.map((_, i) => parts.slice(parts.length - 1 - i).join('.'));
  const end = ends.find(isOwn) ?? key;
  return SHORT[end] ?? end;
}

function valueText(json: string): string {
  const value: unknown = JSON.parse(json);
  const text = typeof value === 'string' ? value : typeof value === 'number' ? numberText(value) : json;
  const characters = Array.from(text);
  return characters.length > MOST_CHARACTERS ? `${characters.slice(0, MOST_CHARACTERS - 1).join('')}…` : text;
}

/** 1e-4 is easier to read than four zeros. */
function numberText(value: number): string {
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential() : String(value);
}
