import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { VfError } from '../core/errors.ts';
import type { RunIdentity } from './evaluate.ts';

/** A path for a new run in v0's layout: `<base>/evals/<env_id>--<model, "/" as "--">/<8 hex digits>`. Makes nothing. */
export function newRunDirectory(base: string, envId: string, model: string): string {
  return join(runsDirectory(base, envId, model), randomBytes(4).toString('hex'));
}

/** The newest run under `base` that has the same identity and is not complete; null when there is none. */
export async function latestIncompleteRun(base: string, run: RunIdentity): Promise<string | null> {
  throw new VfError(`Expected latestIncompleteRun to exist, it is being written: ${runsDirectory(base, run.envId, run.model)}`);
}

function runsDirectory(base: string, envId: string, model: string): string {
  return join(base, 'evals', `${safeName(envId)}--${safeName(model)}`);
}

/** A single path component: separators become `--` and a leading dot cannot leave the folder. */
function safeName(name: string): string {
  return name.replace(/[/\\]/g, '--').replace(/^\.+/, '_') || '_';
}
