/** Resolves the model of a policy in this process: a model directory, a bundled model, a PEFT adapter, or the folder of a training run. Reads only small files. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { bundledModels, modelPath } from '../../data/bundled-models.ts';
import { cachedHubId } from '../../engine/adapters/base-name.ts';
import { shellCommand } from '../../reports/text/own-command.ts';
import { adapterBase } from './adapter-base.ts';
import { remoteAdapterProblem } from './remote-adapter-problem.ts';
import type { OpenPolicyOptions } from './open-policy.ts';
import { statIfThere } from '../../files/regular-file.ts';

export interface EmbeddedModel {
  /** Directory of the base model. */
  readonly directory: string;
  /** Name of the base model. */
  readonly name: string;
  readonly adapter: { readonly name: string; readonly directory: string } | null;
}

/** Throws a one-line ConfigError. */
export function embeddedModel(asked: string, { variables, names }: Pick<OpenPolicyOptions, 'variables' | 'names'>): EmbeddedModel {
  const path = modelPath(asked);
  if (statIfThere(path)?.isDirectory() !== true) {
    throw new ConfigError(
      `The directory ${path} does not exist. With ${names.given({ provider: 'embedded' })}, ${names.name('model')} must name a model directory, an adapter directory, a bundled model (${bundledModels().join(', ')}) or a model of the Hugging Face hub (owner/name).`,
    );
  }
  const directory = newestAdapter(path) ?? path;
  assertHere(directory);
  if (!existsSync(join(directory, 'adapter_config.json'))) return { directory: path, name: nameOf(path), adapter: null };
  const base = adapterBase(directory, variables);
  return { directory: base, name: nameOf(base), adapter: { name: adapterName(resolve(directory)), directory } };
}

/** The name without its owner, for a folder of the hub's cache, whose own name is a commit. */
function nameOf(path: string): string {
  return basename(cachedHubId(resolve(path)) ?? resolve(path));
}

/** The adapter of the newest checkpoint if the directory is a training run, else null. Throws ConfigError for a run without a checkpoint. */
export function newestAdapter(path: string): string | null {
  if (!existsSync(join(path, 'run.json')) || !existsSync(join(path, 'checkpoints'))) return null;
  const folders = readdirSync(join(path, 'checkpoints'))
    .toSorted()
    .map((name) => join(path, 'checkpoints', name, 'adapter'));
  if (folders.length > 0) assertHere(folders.at(-1)!);
  const adapters = folders.filter((directory) => existsSync(join(directory, 'adapter_config.json')));
  const newest = adapters.at(-1);
  if (newest === undefined) throw new ConfigError(`The run ${path} has no checkpoint yet. Continue it: ${shellCommand(['vf-train', '-R', path])}`);
  return newest;
}

/** `<run>-step-000012` or `<run>-best` for an adapter that vf-train wrote, otherwise the last part of its path. */
function adapterName(directory: string): string {
  if (basename(directory) !== 'adapter') return nameOf(directory);
  const version = dirname(directory);
  const above = dirname(version);
  if (basename(above) === 'checkpoints') return `${basename(dirname(above))}-${basename(version)}`;
  return basename(version) === 'best' && existsSync(join(above, 'run.json')) ? `${basename(above)}-best` : nameOf(directory);
}

function assertHere(directory: string): void {
  const problem = remoteAdapterProblem(directory);
  if (problem !== null) throw new ConfigError(problem);
}
