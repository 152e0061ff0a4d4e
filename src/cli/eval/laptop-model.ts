/** Asks the environment's preset `laptop` about its model. Presets are parsed only for a model in this process. */
import type { FindEnvironmentOptions } from '../../registry/find-environment.ts';
import type { ModelWorld } from '../model-world.ts';
import type { Settings } from './settings.ts';

/** Where `--env-dir-path` says that environments are. */
export function searchedIn(settings: Settings): FindEnvironmentOptions {
  const environmentsDir = settings['env-dir-path'];
  return environmentsDir === undefined ? {} : { environmentsDir };
}

export async function laptopModelOf(environmentId: string, options: FindEnvironmentOptions): Promise<string | null> {
  const { laptopModel } = await import('../model-world.ts');
  return laptopModel(environmentId, options);
}

export async function worldOf(
  modelDirectory: string,
  environment: { readonly environmentId: string; readonly args: Readonly<Record<string, unknown>> } & FindEnvironmentOptions,
): Promise<ModelWorld | null> {
  const { modelWorld } = await import('../model-world.ts');
  return modelWorld(modelDirectory, environment);
}
