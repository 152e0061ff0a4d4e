/**
 * The training loop. A step takes trajectories from a source, credits their tokens, updates the adapter by the losses, serves the new version and records
 * what happened. Everything needed to resume after a kill is on disk before the next step begins.
 */
import { CancelledError, firstError, GradientError, TrainingError, stackTrace } from '../../core/errors.ts';
import { stoppingFault } from '../../core/module-fault.ts';
import { RunRecords } from '../records/run-records.ts';
import { stepValues } from './step-values.ts';
import { PhaseClock } from './phase-clock.ts';
import { isServing, servePolicy } from './serve-policy.ts';
import { type SessionStart, startSession } from './start-session.ts';
import { trainStep } from './train-step.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { lowerRateFlags, moreStepsFlags, newRunAfter, totalSteps } from '../config/training-schedule.ts';
import { doneText, servingFault, unchangedText } from '../records/usable-version.ts';
import { isRepeated, type SkipReason } from '../skip-reason.ts';
import type { TrainingOutcome, TrainingRun, TrainingSession } from '../training-session.ts';

/** Runs until the last step, a stop by a guard, or an interruption. Throws errors that end the run; it can be resumed even then. */
export async function train(run: TrainingRun, signal: AbortSignal): Promise<TrainingOutcome> {
  try {
    await using records = await RunRecords.open(run);
    return await trainSessions(run, records, signal);
  } catch (thrown) {
    throw firstError(thrown);
  }
}

/** Runs sessions until one ends for a reason other than a lost backend. */
async function trainSessions(run: TrainingRun, records: RunRecords, signal: AbortSignal): Promise<TrainingOutcome> {
  let hasBegun = false;
  // Counted since the checkpoint that a new backend continues from: the budget in it is already smaller for earlier losses.
  let lostToMemory = 0;
  let continuedFrom = -1;
  for (let restarts = 0; ; restarts++) {
    try {
      // Once it is closed, it is known which servers served to the end.
      await useSession(run, signal, async (session) => {
        hasBegun = true;
        await trainSession(run, records, session, { signal, lostToMemory });
      });
      records.report({ kind: 'finished', message: doneText(totalSteps(run.config)) });
      return await records.outcome('finished', null);
    } catch (thrown) {
      const error = firstError(thrown);
      const fault = stoppingFault(signal);
      if (fault !== null) return await stoppedBy(fault, records);
      if (signal.aborted || error instanceof CancelledError) return await records.outcome('interrupted', null);
      if (error instanceof TrainingError || (error instanceof GradientError && error.code === 'not_finite')) {
        return await stoppedBy(error, records);
      }
      // A backend that never started would fail again.
      if (!hasBegun || !(error instanceof GradientError) || error.code !== 'lost') throw error;
      if (restarts >= run.config.backend.maxRestarts) return await stoppedBy(error, records);
      const from = (await records.checkpoints.latest())?.step ?? 0;
      lostToMemory = (from === continuedFrom ? lostToMemory : 0) + Number(error.needsSmallerBatches);
      continuedFrom = from;
      records.report({
        kind: 'backend_lost',
        message: `${error.message}. A new backend continues from the last checkpoint`,
        stack: stackTrace(error),
      });
    }
  }
}

async function useSession(run: TrainingRun, signal: AbortSignal, use: (session: TrainingSession) => Promise<void>): Promise<void> {
  await using session = await run.openSession(signal);
  await use(session);
}

async function stoppedBy(error: Error, records: RunRecords): Promise<TrainingOutcome> {
  records.report({ kind: 'stopped', message: error.message, stack: stackTrace(error) });
  return await records.outcome('stopped', error);
}

/** Trains with one backend, from the last checkpoint to the last step. Throws TrainingError if the version that the last step leaves is not a result. */
async function trainSession(run: TrainingRun, records: RunRecords, session: TrainingSession, start: SessionStart): Promise<void> {
  const { config, losses, observer } = run;
  await using parts = await startSession(run, records, session, start);
  const { source, credit, evaluation, validation, budget, guards, checkpoints, progress } = parts;
  const lastStep = totalSteps(config);
  const evaluate = async () => {
    const { step, version } = progress;
    if (!evaluation.isDue(step, version)) return;
    if (isServing(parts) || !evaluation.needsPolicy(step, version)) return evaluation.run(step, version);
    records.report({ kind: 'alarm', message: `The evaluation after step ${step} was not played: version ${version} does not serve` });
  };
  if (progress.step < lastStep || validation.isDue(progress.step) || evaluation.isDue(progress.step, progress.version)) await records.begin();
  if (validation.isDue(progress.step)) guards.collapse(await validation.run(progress.step));
  await evaluate();
  let failure: string | null = null;
  let skipped: SkipReason | null = null;
  while (progress.step < lastStep) {
    guards.cost();
    const step = progress.step + 1;
    const timer = new PhaseClock(step, observer);
    const cpuAtStart = process.cpuUsage();
    const { version } = progress;
    const { batch, work, update } = await trainStep(step, version, {
      config,
      losses,
      source,
      credit,
      ...(run.tokenKinds === undefined ? {} : { kinds: run.tokenKinds }),
      ...(run.teacher === undefined ? {} : { teacher: run.teacher }),
      budget,
      timer,
      backend: session.backend,
      signal: parts.signal,
      onUpdate: () => progress.leave(),
      onTakenBack: () => progress.stay(),
    });
    progress.advance(step, update.applied > 0 ? step : version);
    // An interruption while it publishes must not cost the step.
    const served = await settled(timer.measure('publish', () => servePolicy(parts, batch.trajectories)));
    const values = stepValues({
      batch,
      played: records.rollouts.added(step),
      work,
      update,
      served: served.value,
      timer,
      cpuAtStart,
      version,
      progress,
      checkpoints,
    });
    records.row({ kind: 'step', step, values });
    await records.rollouts.credit(work, step);
    await records.sourceTexts(batch);
    guards.notice({ step, ...batch, values, update });
    budget.finishStep();
    skipped = update.reason;
    const lowerRate = lowerRateFlags(config, step);
    const stuck = guards.step(update.reason, lowerRate);
    await progress.keep({ hasCheckpoint: checkpoints.isDue(step), counters: checkpoints.counters });

    if (served.thrown !== null) throw served.thrown;
    if (stuck !== null) throw stuck;
    if (served.value !== null) {
      failure = served.value.ok ? null : served.value.reason.message;
      guards.publish(served.value.ok ? null : served.value.reason);
    }
    if (validation.isDue(step)) guards.collapse(await validation.run(step));
    guards.watch(values, lowerRate);
    await evaluate();
    if (checkpoints.isDue(step)) await checkpoints.save();
  }
  const { version: trained } = progress;
  if (trained === 0 && lastStep > 0) throw unchanged(config, skipped ?? (await records.skipReason(lastStep)));
  await parts.best.settle();
  const fault = session.isServed === false ? null : servingFault({ trained, serves: parts.policy.version, why: failure });
  if (fault !== null) throw new TrainingError(fault);
}

function unchanged(config: TrainingConfig, last: SkipReason | null): TrainingError {
  const newRun = newRunAfter(last, config);
  const resumeFlags = newRun !== null || isRepeated(last) ? null : moreStepsFlags(config);
  return new TrainingError(unchangedText(totalSteps(config), last), { resumeFlags, newRun });
}

type Settled<T> = { readonly value: T; readonly thrown: null } | { readonly value: null; readonly thrown: unknown };

async function settled<T>(work: Promise<T>): Promise<Settled<T>> {
  try {
    return { value: await work, thrown: null };
  } catch (thrown) {
    return { value: null, thrown: firstError(thrown) };
  }
}
