/** The folder on this machine of a model that is named by path, by a bundled name or by its id on the hub. */
import { existsSync } from 'node:fs';
import { modelPath } from '../../data/bundled-models.ts';
import { cachedModel } from '../../data/cached-model.ts';
import { parseHubModel } from '../../data/hub-model.ts';

/** `named` itself if the model is not on this machine (yet): facts about it are then unknown. */
export function modelFolder(named: string, variables: Readonly<Record<string, string | undefined>>): string {
  const path = modelPath(named);
  return existsSync(path) ? path : (cachedModel(parseHubModel(named)?.name ?? named, variables) ?? path);
}
