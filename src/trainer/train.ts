/**
 * GRPO: sample groups of rollouts, turn their rewards into advantages, update the adapter, publish it, again. This is the loop; what happens in a step is
 * in the files that it names. All that a run needs to go on after a kill is on disk before the next step begins.
 */
import { CancelledError, firstError, GradientError, TrainingError, stackTrace } from '../core/errors.ts';
import { batchValues } from './batch-values.ts';
import { formGroups } from './form-groups.ts';
import { klPenalties } from './kl-penalty.ts';
import { PhaseTimer } from './phase-timer.ts';
import { phaseValues } from './phase-values.ts';
import { RunRecords } from './run-records.ts';
import { RunState } from './run-state.ts';
import type { TrainingOutcome } from './training-outcome.ts';
import type { TrainingRun, TrainingSession } from './training-session.ts';
import { updatePolicy } from './update-policy.ts';

/** Runs to the last step, to a guard that stops it, or to an interruption. Throws what it cannot go on from; the run can be resumed then too. */
export async function train(run: TrainingRun, signal: AbortSignal): Promise<TrainingOutcome> {
  try {
    await using records = await RunRecords.open(run);
    return await trainSessions(run, records, signal);
  } catch (thrown) {
    throw firstError(thrown);
  }
}

/** One session after another, until one comes to an end that is no loss of its backend. */
async function trainSessions(run: TrainingRun, records: RunRecords, signal: AbortSignal): Promise<TrainingOutcome> {
  let hasBegun = false;
  for (let restarts = 0; ; restarts++) {
    try {
      await using session = await run.openSession(signal);
      hasBegun = true;
      await trainSession(run, records, session, signal);
      records.tell({ kind: 'finished', message: `All ${run.config.steps} steps are done` });
      return await records.outcome('finished', null);
    } catch (thrown) {
      const error = firstError(thrown);
      if (signal.aborted || error instanceof CancelledError) return await records.outcome('interrupted', null);
      if (error instanceof TrainingError || (error instanceof GradientError && error.code === 'not_finite')) {
        records.tell({ kind: 'stopped', message: error.message, stack: stackTrace(error) });
        return await records.outcome('stopped', error.message);
      }
      // A backend that never came up would not the next time either.
      const isLost = hasBegun && error instanceof GradientError && error.code === 'lost';
      if (!isLost || restarts >= run.config.backend.maxRestarts) throw error;
      records.tell({ kind: 'backend_lost', message: `${error.message}. A new one goes on from the last checkpoint`, stack: stackTrace(error) });
    }
  }
}

/** The life of one backend: from the last checkpoint to the last step. */
async function trainSession(run: TrainingRun, records: RunRecords, session: TrainingSession, signal: AbortSignal): Promise<void> {
  const { config, environment, observer } = run;
  await using state = await RunState.resume(run, records, session, signal);
  if (state.isEvaluationDue) await state.evaluate();
  while (state.step < config.steps) {
    const timer = new PhaseTimer(state.step + 1, observer);
    const { version } = state;
    const pass = { backend: session.backend, budget: state.budget, temperature: config.rollouts.temperature, signal };

    const batch = await timer.measure('rollouts', () => state.batches.take(state.step + 1));
    const penalty = await timer.measure('forward', () => klPenalties(batch.trajectories, config.algorithm, pass));
    const groups = formGroups(batch.trajectories, config, penalty);
    const update = await updatePolicy(groups.groups, {
      ...pass,
      config,
      responseTokens: environment.limits.responseTokens,
      step: state.step + 1,
      version,
      timer,
    });
    state.finishStep(update.applied > 0);
    const published = await timer.measure('publish', () => state.publish(batch.trajectories));

    const values = {
      ...batchValues(batch.trajectories, groups, version),
      ...update.values,
      ...phaseValues({ timer, state, update, batch, published }),
    };
    records.row({ kind: 'step', step: state.step, values });
    if (published !== null) state.guards.publish(published.ok ? null : published.reason);
    state.guards.step(update.reason);
    state.guards.watch(values);
    if (state.isEvaluationDue) await state.evaluate();
    if (state.isCheckpointDue) await state.checkpoint();
  }
}
