/**
 * Which files scored a run, as further recorded settings of it: `environment.version` for the environment's own module, `environment.argument_versions` for files that its
 * arguments name, `environment.rubric_version` for a module of `vf-score --rubric`. Under an equal path there may be other contents in another run, and then rewards have another scale. Takes the recorded digests and reads no file.
 */
import type { RecordedSettings } from './setting-differences.ts';
import { isObject } from '../schemas/is-object.ts';

/** The keys of a training, and of an evaluation. */
const MODULE = ['environment.id', 'env_id'];
const ARGUMENT = /^(?:environment\.(?:eval_)?args|env_args)\./;
/** The module of `vf-score --rubric`. */
const RUBRIC = 'rubric';
/** Enough to tell two versions apart, and short enough to show. */
const DIGEST_CHARACTERS = 8;

/**
 * The configuration with the versions; unchanged without recorded digests.
 * @param inputs digests by setting and file, as `run.json` and the sessions of `metadata.json` record them; of several sessions, those of each: rollouts keep the scores that they got
 */
export function withEnvironmentVersion(config: RecordedSettings, ...inputs: readonly unknown[]): RecordedSettings {
  const tables = inputs.filter(isObject);
  const keys = [...new Set(tables.flatMap((table) => Object.keys(table)))];
  const text = (key: string) => versionText(tables.flatMap((table) => (isObject(table[key]) ? [table[key]] : [])));
  const module = MODULE.find((key) => keys.includes(key));
  const named = keys.filter((key) => ARGUMENT.test(key)).map((key) => [key.replace(ARGUMENT, ''), text(key)]);
  const rubric = keys.includes(RUBRIC) ? text(RUBRIC) : undefined;
  if (module === undefined && named.length === 0 && rubric === undefined) return config;
  return {
    ...config,
    environment: {
      ...(isObject(config['environment']) ? config['environment'] : {}),
      ...(module === undefined ? {} : { version: text(module) }),
      ...(rubric === undefined ? {} : { rubric_version: rubric }),
      ...(named.length === 0 ? {} : { argument_versions: Object.fromEntries(named) }),
    },
  };
}

/** The settings of an evaluation that a training played with an environment or settings that it no longer has: their number tells the setup, whose files are not known. */
export function withOlderSetup(config: RecordedSettings, setup: number): RecordedSettings {
  const { version: _, argument_versions: __, ...environment } = isObject(config['environment']) ? config['environment'] : {};
  return { ...config, environment: { ...environment, older_setup: setup } };
}

/**
 * The digests of all files that gave the scores on file: those of an evaluation's sessions, and of vf-score, which replaces them unless it was partial. A scoring of an
 * earlier version recorded none, so nothing is known of the scores up to it. @param metadata the content of metadata.json
 */
export function recordedInputs({ sessions, scorings, complete }: RecordedSettings): readonly unknown[] {
  const scored = listOf(scorings).map((one) => ({ at: textOf(one['at']), inputs: one['inputs'], replaces: one['partial'] !== true }));
  const all = listOf(sessions);
  // A session that played nothing scored nothing. A killed one had no time to count.
  const playing = all.filter(({ recorded }, i) => recorded !== 0 || (i === all.length - 1 && complete !== true));
  const played = playing.map((one) => ({ at: textOf(one['started_at']), inputs: one['inputs'], replaces: false }));
  const inOrder = [...played, ...scored].toSorted((a, b) => (a.at < b.at ? -1 : Number(a.at > b.at)));
  const last = inOrder.findLastIndex(({ replaces }) => replaces);
  return inOrder.slice(Math.max(0, last)).map(({ inputs }) => inputs);
}

function listOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** `env.ts 0cee2717, words.json 5d41402a` */
export function versionText(tables: readonly Readonly<Record<string, unknown>>[]): string {
  const names = [...new Set(tables.flatMap((files) => Object.keys(files)))].toSorted();
  const digests = (name: string) => new Set(tables.flatMap((files) => (name in files ? [String(files[name]).slice(0, DIGEST_CHARACTERS)] : [])));
  return names.map((name) => `${name} ${[...digests(name)].join('+')}`).join(', ');
}

/** The files of which two versions hold other contents, or of which one has several or none. */
export function differingFiles(first: string, second: string): string[] {
  const [a, b] = [first, second].map((text) => new Map(text.split(', ').map((part) => [part.slice(0, part.lastIndexOf(' ')), part] as const)));
  return [...new Set([...a!.keys(), ...b!.keys()])].filter(
    (name) => a!.get(name) !== b!.get(name) || a!.get(name)?.includes('+', name.length) === true,
  );
}
