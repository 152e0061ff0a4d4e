/** A run that is to be continued and has nothing left to do, found by reading alone: nothing is opened, and no file is touched. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, ResultsError } from '../../core/errors.ts';
import { readLines } from '../../files/json-lines.ts';
import { Checkpoints } from '../../trainer/checkpoints.ts';
import { readTrainingRun, type TrainingPaths, trainingPaths } from '../../trainer/training-directory.ts';
import type { TrainingOutcome } from '../../trainer/training-outcome.ts';
import { PLOT_FILES } from './plot/plot-files.ts';
import type { TrainingSetup } from './read-training-config.ts';

export interface FinishedRun {
  readonly outcome: TrainingOutcome;
  readonly paths: TrainingPaths;
  /** The file of the transcripts; null: none. */
  readonly transcripts: string | null;
}

/**
 * How the run ended that `-R` names; null where there is something to do: steps, a changed setting, a last checkpoint that is not whole. Throws ConfigError
 * where it is to end before the step that it has come to.
 */
export async function finishedRun({ config, changes, resumeDirectory }: TrainingSetup): Promise<FinishedRun | null> {
  if (resumeDirectory === null) return null;
  const paths = trainingPaths(resumeDirectory);
  const isShorter = changes.some(({ key, before, after }) => key === 'steps' && Number(after) < Number(before));
  if (isShorter) await assertStepsAhead(paths, config.steps);
  if (changes.length > 0 || (await readTrainingRun(resumeDirectory)).finished_at === null) return null;
  const checkpoint = await latestCheckpoint(paths);
  if (checkpoint === null || checkpoint.step < config.steps) return null;
  const { step, version, model, directory, adapterDirectory } = checkpoint;
  const outcome: TrainingOutcome = {
    reason: 'finished',
    message: null,
    step,
    version,
    model,
    directory: resumeDirectory,
    adapter: version === 0 ? null : adapterDirectory,
    checkpoint: directory,
    plots: PLOT_FILES.map((file) => join(paths.plots, file)).filter((path) => existsSync(path)),
    events: await lineCount(paths.events),
    resumable: false,
  };
  return { outcome, paths, transcripts: existsSync(paths.transcripts) ? paths.transcripts : null };
}

async function assertStepsAhead(paths: TrainingPaths, steps: number): Promise<void> {
  const step = (await latestCheckpoint(paths))?.step ?? 0;
  if (step <= steps) return;
  throw new ConfigError(`Expected steps to be at least ${step}, which this run has taken, got ${steps}: ask for more, or leave -R out for a new run`);
}

/** Null also where none is whole: a resume then says so. */
async function latestCheckpoint({ checkpoints }: TrainingPaths) {
  try {
    return await new Checkpoints(checkpoints).latest();
  } catch (error) {
    if (error instanceof ResultsError) return null;
    throw error;
  }
}

async function lineCount(path: string): Promise<number> {
  let count = 0;
  for await (const _ of readLines(path)) count++;
  return count;
}
