/** Compares the base that an adapter names with the model in use: the same shapes do not make the same model. */
import { existsSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { cachedHubId } from '../../engine/adapters/base-name.ts';
import { adapterConfig } from '../../files/model-facts.ts';
import { baseFingerprint } from '../../trainer/gradients/embedded/base-fingerprint.ts';
import { adapterBase } from './adapter-base.ts';
import { modelFolder } from './model-folder.ts';

type Variables = Readonly<Record<string, string | undefined>>;

/** A line for the user if the adapter names another base than `model`, by its files or, where these are not on this machine, by its name; null if it may be the same. */
export async function otherBaseNotice(adapter: string, model: string, variables: Variables): Promise<string | null> {
  const named = adapterConfig(adapter)?.['base_model_name_or_path'];
  if (typeof named !== 'string' || named === '') return null;
  const [theirs, ours] = [foundBase(adapter, variables), modelFolder(model, variables)];
  const isSame = theirs !== null && existsSync(ours) ? await haveSameFiles(theirs, ours) : nameOf(theirs ?? named) === nameOf(ours);
  if (isSame) return null;
  return `the adapter ${adapter} was trained on another base: its adapter_config.json names ${named}, and it is used on ${model}. On another base it is another policy, or noise; if the two are not copies of one model, name the adapter's own base`;
}

function foundBase(adapter: string, variables: Variables): string | null {
  try {
    return modelFolder(adapterBase(adapter, variables), variables);
  } catch (error) {
    // The base is not on this machine, so only its name is known.
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

async function haveSameFiles(theirs: string, ours: string): Promise<boolean> {
  if (realpathSync(theirs) === realpathSync(ours)) return true;
  // A folder that is not a model is reported by what loads it.
  const prints = await Promise.all([theirs, ours].map((folder) => baseFingerprint(folder).catch(() => null)));
  return prints.includes(null) || prints[0] === prints[1];
}

/** The last part of a path or of a hub id, which is all that other machines have in common. */
function nameOf(model: string): string {
  return basename(cachedHubId(model) ?? model).toLowerCase();
}
