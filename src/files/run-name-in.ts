/** The name of the run in a folder, an evaluation or a training, for what is made of its files. */
import { join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { recordedRunName } from '../schemas/run-name.ts';
import { readDocument } from './read-document.ts';
import { readToml } from './toml-text.ts';

/** Null for a run without a name of its own, and for a folder of anything else. */
export async function runNameIn(folder: string): Promise<string | null> {
  const { name } = fieldsOf(await readOrNull(join(folder, 'metadata.json'), readDocument));
  if (typeof name === 'string') return name;
  return recordedRunName(await readOrNull(join(folder, 'run.json'), readDocument), await readOrNull(join(folder, 'config.toml'), readToml));
}

/** A damaged file gives no name, and nothing else of a run is read here. */
async function readOrNull(path: string, read: (path: string) => Promise<unknown>): Promise<unknown> {
  try {
    return await read(path);
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}
