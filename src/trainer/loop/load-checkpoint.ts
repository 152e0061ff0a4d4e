/** Loads the state that a session continues from: the newest checkpoint that is usable. Checkpoints of versions of vf-search that kept broken weights are passed over. */
import { GradientError } from '../../core/errors.ts';
import type { Checkpoint } from '../records/checkpoints.ts';
import type { RunRecords } from '../records/run-records.ts';
import { plainProbe, weightsFault } from '../records/usable-version.ts';
import type { Trajectory } from '../trajectory.ts';
import type { TrainingSession } from '../training-session.ts';

/** Returns null, with the backend as it was, if the run starts at its first step. Reports the checkpoints that are passed over in one event. */
export async function loadCheckpoint(
  records: RunRecords,
  { backend }: Pick<TrainingSession, 'backend'>,
  signal: AbortSignal,
): Promise<Checkpoint | null> {
  const { checkpoints } = records;
  const passed: { readonly step: number; readonly fault: string }[] = [];
  let found = await checkpoints.latest();
  if (found === null) return null;
  await backend.hold();
  const probed = [...(await newestRollouts(records)), plainProbe(backend.adapter.vocabularySize)];
  for (; found !== null; found = await checkpoints.latest()) {
    const fault = await faultOf(found, async ({ stateDirectory }) => {
      await backend.loadState(stateDirectory);
      return weightsFault(backend, probed, signal);
    });
    if (fault === null) break;
    passed.push({ step: found.step, fault });
    checkpoints.markUnusable(found);
  }
  if (found === null) await backend.restore();
  if (passed.length > 0) records.report({ kind: 'alarm', message: passedText(passed, found) });
  return found;
}

async function faultOf(checkpoint: Checkpoint, load: (checkpoint: Checkpoint) => Promise<string | null>): Promise<string | null> {
  try {
    return await load(checkpoint);
  } catch (error) {
    if (error instanceof GradientError && error.code === 'not_finite') return error.message;
    throw error;
  }
}

function passedText(passed: readonly { readonly step: number; readonly fault: string }[], found: Checkpoint | null): string {
  const steps = passed.map(({ step }) => step);
  const which = steps.length === 1 ? `checkpoint of step ${steps[0]} is` : `checkpoints of steps ${steps.toReversed().join(', ')} are`;
  const from = found === null ? 'from its first step, with the recorded rollouts' : `from the checkpoint of step ${found.step}`;
  return `The ${which} not usable, because ${passed[0]!.fault}: this run continues ${from}`;
}

/** Reads the rollouts of the newest step that is complete on file. */
export async function newestRollouts({ rollouts }: RunRecords): Promise<readonly Trajectory[]> {
  const newest = (await rollouts.complete()).at(-1);
  if (newest === undefined) return [];
  await using step = await rollouts.open(newest.step, newest.phase);
  return [...step.recorded];
}
