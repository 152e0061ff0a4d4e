/** Asks the environment's preset `laptop` about its model. Presets are parsed only for a model in this process. */
import type { FindEnvironmentOptions } from '../../registry/find-environment.ts';
import type { ModelWorld } from '../environment/model-world.ts';
import type { Settings } from '../../cli/eval/settings.ts';

/** Where `--env-dir-path` says that environments are. */
export function searchedIn(settings: Settings): FindEnvironmentOptions {
  const environmentsDir = settings['env-dir-path'];
  return environmentsDir === undefined ? {} : { environmentsDir };
}

export async function laptopModelOf(environmentId: string, options: FindEnvironmentOptions): Promise<string | null> {
  const { laptopModel } = await import('../environment/model-world.ts');
  return laptopModel(environmentId, options);
}

export async function worldOf(
  modelDirectory: string,
  environment: { readonly environmentId: string; readonly args: Readonly<Record<string, unknown>> } & FindEnvironmentOptions,
): Promise<ModelWorld | null> {
  const { modelWorld } = await import('../environment/model-world.ts');
  return modelWorld(modelDirectory, environment);
}
