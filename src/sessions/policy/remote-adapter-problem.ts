import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { shellCommand } from '../../reports/text/own-command.ts';
import { REFERENCE_FILE } from '../../trainer/gradients/tinker/reference-files.ts';

/** Says how the weights of an adapter come here; null unless the folder refers to weights at a training service. */
export function remoteAdapterProblem(directory: string): string | null {
  if (!existsSync(join(directory, REFERENCE_FILE))) return null;
  const command = shellCommand(['vf-export', directory, '--adapter', '-o', 'adapter']);
  return `The weights of the adapter ${directory} are at a training service. Bring them here with ${command}, and name that folder`;
}
