import { resolve } from 'node:path';
import type { EvaluationOptions } from '../../evaluate/evaluation-options.ts';
import { findRun, newRunDirectory } from '../../evaluate/run-directory.ts';
import { displayPath } from '../../reports/text/own-command.ts';
import type { Surroundings } from '../surroundings.ts';
import type { EvaluationRequest } from './evaluation-request.ts';

/** The directory of a run: the one to resume, or a new one. */
export async function runDirectory(
  { output, resume }: Pick<EvaluationRequest, 'output' | 'resume'>,
  options: Omit<EvaluationOptions, 'outputDir'>,
  { warn }: Pick<Surroundings, 'warn'>,
) {
  const { envId, model } = options.run;
  const base = resolve(output ?? 'outputs');
  if (typeof resume === 'string') return { directory: resolve(resume), resume: true };
  if (resume === true) {
    const { path, difference } = await findRun(base, options);
    if (path !== null) return { directory: path, resume: true };
    const other = difference === null ? '' : ` (in the newest incomplete one ${difference})`;
    warn(`found no run of ${envId} with ${model} and the same settings under ${displayPath(base)}${other}; starting a new one`);
  }
  return { directory: newRunDirectory(base, envId, model), resume: false };
}
