/**
 * The training loop of GRPO: sample groups of rollouts, turn their rewards into advantages, update the adapter, publish it, repeat. The parts of a step
 * are in the imported files. Everything needed to resume after a kill is on disk before the next step begins.
 */
import { CancelledError, firstError, GradientError, TrainingError, stackTrace } from '../../core/errors.ts';
import { batchValues } from '../records/batch-values.ts';
import { formGroups } from '../credit/form-groups.ts';
import { klPenalties } from '../credit/kl-penalty.ts';
import { PhaseTimer } from './phase-timer.ts';
import { phaseValues } from './phase-values.ts';
import { RunRecords } from '../records/run-records.ts';
import { RunState } from './run-state.ts';
import type { TrainingOutcome } from './training-outcome.ts';
import type { TrainingRun, TrainingSession } from './training-session.ts';
import { updatePolicy } from './update-policy.ts';

/** Runs until the last step, a stop by a guard, or an interruption. Throws errors that end the run; it can be resumed even then. */
export async function train(run: TrainingRun, signal: AbortSignal): Promise<TrainingOutcome> {
  try {
    await using records = await RunRecords.open(run);
    return await trainSessions(run, records, signal);
  } catch (thrown) {
    throw firstError(thrown);
  }
}

/** Runs sessions until one ends for another reason than a lost backend. */
async function trainSessions(run: TrainingRun, records: RunRecords, signal: AbortSignal): Promise<TrainingOutcome> {
  let hasBegun = false;
  for (let restarts = 0; ; restarts++) {
    try {
      await using session = await run.openSession(signal);
      hasBegun = true;
      await trainSession(run, records, session, signal);
      records.report({ kind: 'finished', message: run.config.steps === 1 ? 'The only step is done' : `All ${run.config.steps} steps are done` });
      return await records.outcome('finished', null);
    } catch (thrown) {
      const error = firstError(thrown);
      if (signal.aborted || error instanceof CancelledError) return await records.outcome('interrupted', null);
      if (error instanceof TrainingError || (error instanceof GradientError && error.code === 'not_finite')) {
        records.report({ kind: 'stopped', message: error.message, stack: stackTrace(error) });
        return await records.outcome('stopped', error.message, error instanceof TrainingError ? error.failedRollouts : 0);
      }
      // A backend that never started would fail again.
      const isLost = hasBegun && error instanceof GradientError && error.code === 'lost';
      if (!isLost || restarts >= run.config.backend.maxRestarts) throw error;
      records.report({
        kind: 'backend_lost',
        message: `${error.message}. A new backend continues from the last checkpoint`,
        stack: stackTrace(error),
      });
    }
  }
}

/** Trains with one backend, from the last checkpoint to the last step. */
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
