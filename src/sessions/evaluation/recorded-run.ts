/** Reads the facts about a run that the command needs before the evaluation opens its directory. */
import { join } from 'node:path';
import { jsonObjectAt } from '../../files/json-file.ts';

/** Null if the directory contains no readable run; resuming it reports the reason. */
export function recordedRun(directory: string): { readonly envId: string; readonly rows: number; readonly name: string | null } | null {
  const { env_id: envId, num_examples: rows, name } = jsonObjectAt(join(directory, 'metadata.json')) ?? {};
  return typeof envId === 'string' && typeof rows === 'number' ? { envId, rows, name: typeof name === 'string' ? name : null } : null;
}
