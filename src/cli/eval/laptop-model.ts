/** Asks the environment's preset `laptop` about its model. Presets are parsed only for a model in this process. */
import type { ModelWorld } from '../model-world.ts';

export async function laptopModelOf(environmentId: string): Promise<string | null> {
  const { laptopModel } = await import('../model-world.ts');
  return laptopModel(environmentId);
}

export async function worldOf(modelDirectory: string, environmentId: string, args: Readonly<Record<string, unknown>>): Promise<ModelWorld | null> {
  const { modelWorld } = await import('../model-world.ts');
  return modelWorld(modelDirectory, { environmentId, args });
}
