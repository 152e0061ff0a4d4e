/** The base of a run in the form that the embedded engine needs: a folder. The run's record keeps the id of the hub, which names the base on every machine. */
import { basename } from 'node:path';
import { parseHubModel } from '../../data/hub-model.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Surroundings } from '../surroundings.ts';
import { localModel, modelHere } from './local-model.ts';
import { checkModel } from '../engine/open-engine.ts';

/** Downloads a base that `model.path` names by its id on the hub. PyTorch and vLLM download theirs themselves. Throws ConfigError. */
export async function withLocalBase<C extends TrainingConfig>(config: C, surroundings: Surroundings): Promise<C> {
  const { model, policy } = config;
  if (!usesEngine(config)) return config;
  const path = await localModel(model.path, surroundings);
  if (path === model.path) return config;
  // A folder of the hub's cache has the name of a commit.
  const name = policy.embedded === null ? policy.model : (policy.model ?? basename(hubNameOf(model.path)));
  return { ...config, model: { ...model, path }, policy: { ...policy, model: name } };
}

/**
 * Checks the base without a download, for a dry run: refuses a base that the embedded engine would refuse. Returns whether the run would download the base. Throws
 * ConfigError.
 */
export async function checkLocalBase({ model: { path } }: TrainingConfig, variables: Readonly<Record<string, string | undefined>>): Promise<boolean> {
  const { path: here } = await modelHere(path, variables);
  if (here === null) return true;
  await checkModel(here);
  return false;
}

export function usesEngine({ policy, backend }: TrainingConfig): boolean {
  return policy.embedded !== null || backend.kind === 'embedded';
}

/** The name on the hub, without its revision. */
function hubNameOf(path: string): string {
  return parseHubModel(path)?.name ?? path;
}
