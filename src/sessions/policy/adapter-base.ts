/** Finds the base model of a PEFT adapter on this machine. */
import { existsSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { adapterConfig } from '../../files/model-facts.ts';
import { readTomlSync } from '../../files/toml-text.ts';
import { modelPath } from '../../data/bundled-models.ts';
import { cachedModel } from '../../data/cached-model.ts';
import { cachedHubId } from '../../engine/adapters/base-name.ts';
import { shellCommand } from '../../reports/text/own-command.ts';
import { isObject } from '../../schemas/is-object.ts';

/** Folders between a run and its adapters: `checkpoints/step-000010/adapter`. */
const DEPTH = 3;
const HUB_ID = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;

/**
 * The base's directory: that of the training run which holds the adapter, or the one that `base_model_name_or_path` names, in the working directory, the bundled models or
 * the hub's cache. Throws ConfigError.
 */
export function adapterBase(directory: string, env: Readonly<Record<string, string | undefined>>): string {
  const file = join(directory, 'adapter_config.json');
  const config = adapterConfig(directory);
  if (config === null) throw new ConfigError(`${file} is not a valid PEFT adapter configuration: it is not a readable JSON object`);
  const { base_model_name_or_path: named } = config;
  if (typeof named !== 'string' || named === '') throw new ConfigError(`base_model_name_or_path in ${file} does not name the base model`);
  const ofRun = baseOfRun(directory, named);
  if (ofRun !== null) return ofRun;
  if (existsSync(named)) return named;
  const base = cachedModel(named, env) ?? modelPath(basename(named));
  if (existsSync(base)) return base;
  const remedy = HUB_ID.test(named) ? `Download it: ${shellCommand(['hf', 'download', named])}` : 'Put the model there';
  throw new ConfigError(
    `The base model of the adapter at ${directory} is missing: its adapter_config.json names ${named}, which does not exist. ${remedy}, or correct base_model_name_or_path.`,
  );
}

/**
 * The directory that the adapter's training run recorded, if it is the one that the adapter names; null outside a run, or if it is elsewhere now. Only an absolute
 * one: `adapter_config.json` has a relative one as it is.
 */
function baseOfRun(adapter: string, named: string): string | null {
  let folder = resolve(adapter);
  for (let i = 0; i < DEPTH; i++) {
    folder = dirname(folder);
    if (!existsSync(join(folder, 'run.json'))) continue;
    const path = recordedModel(join(folder, 'config.toml'));
    const isNamed = path !== null && isAbsolute(path) && (cachedHubId(path) === named || basename(path) === basename(named));
    return isNamed && existsSync(join(path, 'config.json')) ? path : null;
  }
  return null;
}

/** Null if the file is not a run's record: then the adapter's own configuration must suffice. */
function recordedModel(file: string): string | null {
  try {
    const { model } = readTomlSync(file);
    return isObject(model) && typeof model['path'] === 'string' ? model['path'] : null;
  } catch {
    return null;
  }
}
