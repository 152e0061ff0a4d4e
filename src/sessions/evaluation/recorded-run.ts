/** Reads the facts about a run that the command needs before the evaluation opens its directory. */
import { join } from 'node:path';
import { readRegularFileSync } from '../../files/regular-file.ts';
import { isObject } from '../../schemas/is-object.ts';

/** Null if the directory contains no readable run; resuming it reports the reason. */
export function recordedRun(directory: string): { readonly envId: string; readonly rows: number } | null {
  let metadata: unknown;
  try {
    metadata = JSON.parse(readRegularFileSync(join(directory, 'metadata.json')));
  } catch {
    // Usually because the path is not a run and has no such file.
    return null;
  }
  if (!isObject(metadata)) return null;
  const { env_id: envId, num_examples: rows } = metadata;
  return typeof envId === 'string' && typeof rows === 'number' ? { envId, rows } : null;
}
