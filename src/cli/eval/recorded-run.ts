/** What the command needs to know of a run's directory before the evaluation opens it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from './settings.ts';

/** Null where the directory holds no run that can be read; saying why is left to whoever resumes it. */
export function recordedRun(directory: string): { readonly envId: string; readonly rows: number } | null {
  let metadata: unknown;
  try {
    metadata = JSON.parse(readFileSync(join(directory, 'metadata.json'), 'utf8'));
  } catch {
    // No such file is the usual case: the path is no run.
    return null;
  }
  if (!isObject(metadata)) return null;
  const { env_id: envId, num_examples: rows } = metadata;
  return typeof envId === 'string' && typeof rows === 'number' ? { envId, rows } : null;
}
