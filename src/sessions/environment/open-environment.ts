import { join } from 'node:path';
import { jsonObjectAt } from '../../files/json-file.ts';
import { readRegularFileSync } from '../../files/regular-file.ts';
import type { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import type { Models } from '../../core/model.ts';
import { packageRoot } from '../../data/package-root.ts';
import type { RunIdentity } from '../../evaluate/evaluation-options.ts';
import { RunImages } from '../../files/run-images.ts';
import { LazyModels } from '../../models/lazy-models.ts';
import { findEnvironment } from '../../registry/find-environment.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import type { OpenTrainingOptions } from '../training/open-training.ts';

/** A loaded environment; disposing closes it. */
export interface OpenedEnvironment extends AsyncDisposable {
  readonly environment: Environment;
  /** Absolute path of its module; empty for one that the caller has loaded. */
  readonly entry: string;
  /** Default size of an evaluation, from the environment's package.json. */
  readonly defaults: { readonly numExamples?: number; readonly rolloutsPerExample?: number };
  readonly versions: Pick<RunIdentity, 'gitCommit' | 'environmentVersion'>;
  /** Provides the models that the environment may call outside its rollouts. */
  readonly bindModels: (models: Models) => void;
  /** The images that the environment shows, in memory until the run has a folder. */
  readonly images: RunImages;
}

export interface OpenEnvironmentOptions {
  /** @default environments, in the working directory */
  readonly environmentsDir?: string;
  /** Environment variables that the environment may look up. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Takes a line for the user. @default writes nothing */
  readonly note?: (line: string) => void;
}

/** Throws ConfigError if the environment is unknown, does not load or refuses its arguments. */
export async function openEnvironment(
  id: string,
  args: Readonly<Record<string, unknown>>,
  { variables, signal, note = () => {}, ...searched }: OpenEnvironmentOptions,
): Promise<OpenedEnvironment> {
  const { folder, entry, description } = findEnvironment(id, searched);
  const models = new LazyModels();
  const images = new RunImages();
  const environment = await loadEnvironment(id, args, { ...searched, env: variables, signal, models, images, note });
  const commit = gitCommit(packageRoot());
  const version = versionOf(folder);
  return {
    environment,
    entry,
    defaults: description.eval ?? {},
    bindModels: (bound) => models.bind(bound),
    images,
    versions: { ...(commit === null ? {} : { gitCommit: commit }), ...(version === null ? {} : { environmentVersion: version }) },
    [Symbol.asyncDispose]: () => environment.close(),
  };
}

/** An environment that the caller has loaded and closes. It has no images, because the run that loads an environment keeps its images. */
export function givenEnvironment(environment: Environment): OpenedEnvironment {
  const commit = gitCommit(packageRoot());
  return {
    environment,
    entry: '',
    defaults: {},
    bindModels: () => {},
    images: new RunImages(),
    versions: commit === null ? {} : { gitCommit: commit },
    async [Symbol.asyncDispose]() {},
  };
}

/** `version` in the environment's own package.json; null if it has none. */
function versionOf(folder: string): string | null {
  // Environments need no package.json, and a broken one was reported when the environment was looked up.
  const version = jsonObjectAt(join(folder, 'package.json'))?.['version'];
  return typeof version === 'string' ? version : null;
}

function gitCommit(root: string): string | null {
  const git = join(root, '.git');
  const head = read(join(git, 'HEAD'))?.trim();
  if (head === undefined) return null;
  if (!head.startsWith('ref: ')) return commitOrNull(head);
  const ref = head.slice('ref: '.length);
  const packed = () =>
    read(join(git, 'packed-refs'))
      ?.split('\n')
      .find((line) => line.endsWith(` ${ref}`))
      ?.split(' ')[0];
  return commitOrNull(read(join(git, ref))?.trim() ?? packed() ?? '');
}

function commitOrNull(text: string): string | null {
  return /^[0-9a-f]{40,64}$/.test(text) ? text : null;
}

function read(path: string): string | undefined {
  try {
    return readRegularFileSync(path);
  } catch {
    // Not a checkout, or one whose .git is a file (a worktree): the commit stays unknown.
    return undefined;
  }
}

/** The environment of training and that of evaluations, which may be one; both keep their images in the run's folder. */
export async function openEnvironments(
  { config, directory, variables, signal, warn }: Pick<OpenTrainingOptions, 'config' | 'directory' | 'variables' | 'signal' | 'warn'>,
  opened: Disposers,
  [forTraining, forEvaluation]: readonly [LazyModels, LazyModels],
): Promise<{ environment: Environment; evaluation: Environment }> {
  const { id, args, eval_args: evalArgs } = { ...config.environment, eval_args: config.environment.evalArgs };
  const images = new RunImages();
  await images.keepIn(directory.paths.images);
  const load = async (own: Readonly<Record<string, unknown>>, purpose: 'training' | 'evaluation') => {
    const models = purpose === 'training' ? forTraining : forEvaluation;
    const environment = await loadEnvironment(id, own, {
      env: variables,
      signal,
      purpose,
      models,
      images,
      note: warn,
    });
    opened.defer(() => environment.close());
    return environment;
  };
  const environment = await load(args, 'training');
  const isOther = Object.keys(evalArgs).length > 0;
  return { environment, evaluation: isOther ? await load({ ...args, ...evalArgs }, 'evaluation') : environment };
}
