/**
 * Digests of the inputs that a configuration names by path, other than the base and the rows, which the backend and the sources compare themselves. A resumed run must
 * have the adapter, the rollouts and the modules that it began with: under the same path there may be others by now.
 */
import { existsSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { firstNames } from '../../core/first-names.ts';
import { adapterDigests, MODULE, moduleDigests, prefixDigest } from '../../files/input-digests.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import type { WireTrainingRun } from '../../schemas/training-records.ts';

/** The digest of each file, by the setting that names it and the file's name; of rollouts `<bytes>:<digest>`, because their file may grow. */
export type NamedInputs = NonNullable<WireTrainingRun['inputs']>;

export interface ComparedInputs {
  readonly inputs: NamedInputs;
  /** One line for each setting whose files have changed. */
  readonly changes: readonly string[];
}

/** The module of an environment may change, as its rows may: it may be a correction. */
const CORRECTED = 'environment.id';

/** Digests of all inputs that are there; a missing one is reported by what opens it. */
export async function namedInputs(wire: TrainingConfigWire, before: NamedInputs = {}): Promise<NamedInputs> {
  const { model, rollouts_file: rollouts, environment } = wire;
  const inputs: Record<string, Record<string, string>> = {};
  if (model.initial_adapter !== null) inputs['model.initial_adapter'] = await adapterDigests(model.initial_adapter);
  if (rollouts !== null && rollouts !== '-' && existsSync(rollouts)) {
    const name = basename(rollouts);
    const [bytes] = (before['rollouts_file']?.[name] ?? '').split(':');
    inputs['rollouts_file'] = { [name]: await prefixDigest(rollouts, bytes === '' ? Infinity : Number(bytes)) };
  }
  const { environment: _, ...settings } = wire;
  for (const [key, path] of modulesIn(settings)) inputs[key] = await moduleDigests(path);
  const found = environmentIfFound(environment.id);
  if (found !== null && !found.isBundled) inputs[CORRECTED] = await moduleDigests(found.entry);
  return inputs;
}

/**
 * Compares a run's record with its inputs now; a run of an earlier version has none to compare. Throws ConfigError if one has changed, unless the caller allows it or
 * it is the environment's module.
 * @param allows null if the caller has no flag for it
 */
export async function compareInputs(
  { inputs: before = {} }: Pick<WireTrainingRun, 'inputs'>,
  { wire, allows }: { readonly wire: TrainingConfigWire; readonly allows: boolean | null },
): Promise<ComparedInputs> {
  const inputs = await namedInputs(wire, before);
  const changed = Object.entries(inputs).flatMap(([key, files]) => {
    const known = before[key];
    if (known === undefined) return [];
    const names = [...new Set([...Object.keys(known), ...Object.keys(files)])].filter((name) => known[name] !== files[name]);
    return names.length === 0 ? [] : [{ key, text: `${key} names other contents than before: ${firstNames(names)} changed` }];
  });
  const refused = changed.find(({ key }) => key !== CORRECTED);
  if (refused !== undefined && allows !== true)
    throw new ConfigError(
      `A resumed run must have the inputs that it began with, but ${refused.text}. Restore the files,${allows === false ? ' add --allow-changes to go on with the new ones,' : ''} or start a new run.`,
    );
  return { inputs, changes: changed.map(({ text }) => text) };
}

/** The settings that name a module of the user's by its path. */
function modulesIn(value: unknown, key = ''): (readonly [string, string])[] {
  if (isObject(value)) return Object.entries(value).flatMap(([name, inner]) => modulesIn(inner, key === '' ? name : `${key}.${name}`));
  return typeof value === 'string' && MODULE.test(value) && existsSync(value) ? [[key, resolve(value)]] : [];
}
