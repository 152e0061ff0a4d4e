/** Files in place of weights that stay at a training service: where they are, and until when. */
import { join } from 'node:path';
import { GradientError } from '../../../core/errors.ts';
import { readJson } from '../../../core/read-json.ts';
import { writeDirectory } from '../../../engine/adapters/write-directory.ts';
import { readRegularFile } from '../../../files/regular-file.ts';
import { schemaCheck, schemaProblem } from '../../../schemas/schema-check.ts';
import { type RemoteWeights, remoteWeightsSchema } from '../../../schemas/tinker/remote-weights.ts';

/** The file's name, in a checkpoint's folder of state and in that of its adapter. */
export const REFERENCE_FILE = 'tinker.json';

/** As `writeDirectory`. */
export async function writeReference(directory: string, weights: RemoteWeights): Promise<void> {
  await writeDirectory(directory, [{ name: REFERENCE_FILE, parts: [Buffer.from(`${JSON.stringify(weights, null, 2)}\n`)] }]);
}

/** Rejects with GradientError `bad_input` for a folder of something else. */
export async function readReference(directory: string): Promise<RemoteWeights> {
  const path = join(directory, REFERENCE_FILE);
  const text = await readRegularFile(path).catch((cause: unknown) => {
    throw badInput(`No ${REFERENCE_FILE} in ${directory}: the state was not saved through the Tinker API`, cause);
  });
  let value: unknown;
  try {
    value = readJson(text);
  } catch (cause) {
    throw badInput(`${path} is not valid JSON`, cause);
  }
  const check = schemaCheck(remoteWeightsSchema);
  if (check(value)) return value;
  throw badInput(`${path} is not a reference to weights at a training service: ${schemaProblem(check, 'it')}`);
}

function badInput(message: string, cause?: unknown): GradientError {
  return new GradientError(message.replaceAll('\n', ' '), { code: 'bad_input', cause });
}
