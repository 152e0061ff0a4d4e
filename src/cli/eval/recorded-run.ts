/** What the command needs to know of a run's directory before the evaluation opens it. */
import { join } from 'node:path';
import { readRegularFileSync } from '../../files/regular-file.ts';
import { isObject } from '../../schemas/is-object.ts';

/** Null where the directory holds no run that can be read; saying why is left to whoever resumes it. */
export function recordedRun(directory: string): { readonly envId: string; readonly rows: number } | null {
  let metadata: unknown;
  try {
    metadata = JSON.parse(readRegularFileSync(join(directory, 'metadata.json')));
  } catch {
    // No such file is the usual case: the path is no run.
    return null;
  }
  if (!isObject(metadata)) return null;
  const { env_id: envId, num_examples: rows } = metadata;
  return typeof envId === 'string' && typeof rows === 'number' ? { envId, rows } : null;
}
