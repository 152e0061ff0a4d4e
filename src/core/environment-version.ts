/**
 * Which files scored a run, as further recorded settings of it: `environment.version` for the environment's own module, `environment.argument_versions` for files that its
 * arguments name. Under an equal path there may be other contents in another run, and then rewards have another scale. Takes the recorded digests and reads no file.
 */
import type { RecordedSettings } from './setting-differences.ts';
import { isObject } from '../schemas/is-object.ts';

/** The keys of a training, and of an evaluation. */
const MODULE = ['environment.id', 'env_id'];
const ARGUMENT = /^(?:environment\.(?:eval_)?args|env_args)\./;
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
  if (module === undefined && named.length === 0) return config;
  return {
    ...config,
    environment: {
      ...(isObject(config['environment']) ? config['environment'] : {}),
      ...(module === undefined ? {} : { version: text(module) }),
      ...(named.length === 0 ? {} : { argument_versions: Object.fromEntries(named) }),
    },
  };
}

/** Those of an evaluation's sessions. None once vf-score has scored it again, by files that it does not record. @param metadata the content of metadata.json */
export function recordedInputs({ sessions, scorings }: RecordedSettings): readonly unknown[] {
  if (Array.isArray(scorings) && scorings.length > 0) return [];
  return Array.isArray(sessions) ? sessions.map((session) => (isObject(session) ? session['inputs'] : undefined)) : [];
}

/** `env.ts 0cee2717, words.json 5d41402a` */
function versionText(tables: readonly Readonly<Record<string, unknown>>[]): string {
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
