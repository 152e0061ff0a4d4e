import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../../core/environment.ts';
import { RunImages } from '../../files/run-images.ts';
import type { Models } from '../../core/model.ts';
import { packageRoot } from '../../data/package-root.ts';
import type { RunIdentity } from '../../evaluate/evaluation-options.ts';
import { findEnvironment } from '../../registry/find-environment.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import { LazyModels } from '../../models/lazy-models.ts';
import { gitCommit } from './git-commit.ts';

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
  try {
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version?: unknown };
    return typeof version === 'string' ? version : null;
  } catch {
    // Environments need no package.json, and a broken one was reported when the environment was looked up.
    return null;
  }
}
