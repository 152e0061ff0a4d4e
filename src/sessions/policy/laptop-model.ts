/** Asks the environment's preset `laptop` about its model. Presets are parsed only for a model in this process. */
import type { FindEnvironmentOptions } from '../../registry/find-environment.ts';
import type { ModelWorld, ModelWorldOptions } from '../environment/model-world.ts';

/** The folder of environments that the caller names. */
export function searchedIn({ environmentsDir }: FindEnvironmentOptions): FindEnvironmentOptions {
  return environmentsDir === undefined ? {} : { environmentsDir };
}

export async function laptopModelOf(environmentId: string, options: FindEnvironmentOptions): Promise<string | null> {
  const { laptopModel } = await import('../environment/model-world.ts');
  return laptopModel(environmentId, options);
}

export async function worldOf(modelDirectory: string, options: ModelWorldOptions): Promise<ModelWorld | null> {
  const { modelWorld } = await import('../environment/model-world.ts');
  return modelWorld(modelDirectory, options);
}
