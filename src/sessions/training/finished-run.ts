/** Detects a resumed run that has nothing left to do. Only reads files, and writes the name that the request gives such a run. */
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, ResultsError } from '../../core/errors.ts';
import { readLines } from '../../files/json-lines.ts';
import { type Checkpoint, Checkpoints } from '../../trainer/records/checkpoints.ts';
import { readUnpublishedStep } from '../../trainer/records/event-log.ts';
import { readMetrics } from '../../trainer/records/metrics-journal.ts';
import { isEvaluatedByItself } from '../../trainer/records/usable-version.ts';
import { readTrainingRun, TrainingDirectory, trainingPaths } from '../../trainer/records/training-directory.ts';
import type { TrainingOutcome, TrainingPaths } from '../../trainer/training-session.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { TrainingSetup } from './resolve-training.ts';

/** Files of a run's plots, in reading order; a run has those of what it measured. */
const PLOT_FILES = ['reward.svg', 'reward.png', 'loss.svg', 'loss.png', 'overview.svg', 'overview.png'] as const;

export interface FinishedRun {
  readonly outcome: TrainingOutcome;
  readonly paths: TrainingPaths;
  /** Path of the transcripts; null if there are none. */
  readonly transcripts: string | null;
}

/**
 * Returns the end of the run that `-R` names; null if there is something left to do: steps, evaluations or curves that a changed setting requires, a damaged last
 * checkpoint, a last version that is not usable. Throws ConfigError if `steps` is less than the run has already taken.
 */
export async function finishedRun({ config, changes, resumeDirectory }: TrainingSetup): Promise<FinishedRun | null> {
  if (resumeDirectory === null) return null;
  const paths = trainingPaths(resumeDirectory);
  const isShorter = changes.some(({ key, before, after }) => (key === 'steps' || key === 'sft.steps') && Number(after) < Number(before));
  if (isShorter) await assertStepsAhead(paths, totalSteps(config));
  if (changes.some(({ key }) => needsRun(key)) || (await readTrainingRun(resumeDirectory)).finished_at === null) return null;
  const checkpoint = await latestCheckpoint(paths);
  if (checkpoint === null || checkpoint.step < totalSteps(config)) return null;
  if (!(await isUsable(checkpoint, paths))) return null;
  if (changes.some(({ key }) => key === 'name')) await rename(resumeDirectory, config.name);
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
    failedRollouts: 0,
    resumable: false,
  };
  return { outcome, paths, transcripts: existsSync(paths.transcripts) ? paths.transcripts : null };
}

async function rename(run: string, name: string): Promise<void> {
  await using directory = await TrainingDirectory.open(run);
  await directory.rename(name);
}

/** False for the last version of a run that an earlier version of vf-search marked as finished although that version never served, or nothing was trained. */
async function isUsable(last: Pick<Checkpoint, 'step' | 'version'>, { metrics, events }: TrainingPaths): Promise<boolean> {
  if (last.version === 0 && last.step > 0) return false;
  return isEvaluatedByItself(await readMetrics(metrics), last) && (await readUnpublishedStep(events)) !== last.step;
}

/** Tells whether a change of this setting gives a finished run something to do: more steps, evaluations, or curves. */
function needsRun(key: string): boolean {
  return ['steps', 'sft.steps', 'sft.validate_every'].includes(key) || key.startsWith('evaluation.') || key.startsWith('logging.');
}

async function assertStepsAhead(paths: TrainingPaths, steps: number): Promise<void> {
  const step = (await latestCheckpoint(paths))?.step ?? 0;
  if (step <= steps) return;
  throw new ConfigError(
    `This run has already taken ${plural(step, 'step')}, more than steps = ${steps}; raise steps, or leave out -R to start a new run`,
  );
}

/** Null also if all checkpoints are damaged: resuming then reports it. */
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
