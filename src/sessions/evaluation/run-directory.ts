import { resolve } from 'node:path';
import type { EvaluationOptions } from '../../evaluate/evaluation-options.ts';
import { findRun, newRunDirectory } from '../../evaluate/run-directory.ts';
import type { CommandContext } from '../../cli/command-line.ts';
import { displayPath } from '../../reports/evaluation/render-summary.ts';
import type { Settings } from '../../cli/eval/settings.ts';

/** The directory of a run: the one to resume, or a new one. */
export async function runDirectory(settings: Settings, options: Omit<EvaluationOptions, 'outputDir'>, context: CommandContext) {
  const { envId, model } = options.run;
  const base = resolve(settings['output-dir'] ?? 'outputs');
  if (typeof settings.resume === 'string') return { directory: resolve(settings.resume), resume: true };
  if (settings.resume === true) {
    const { path, difference } = await findRun(base, options);
    if (path !== null) return { directory: path, resume: true };
    const other = difference === null ? '' : ` (in the newest incomplete one ${difference})`;
    context.note(`found no run of ${envId} with ${model} and the same settings under ${displayPath(base)}${other}; starting a new one`);
  }
  return { directory: newRunDirectory(base, envId, model), resume: false };
}
