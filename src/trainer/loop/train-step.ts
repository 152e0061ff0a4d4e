/** One step of training, without its surroundings: takes trajectories from a source, credits their tokens, updates the adapter by the losses. Knows no files and no servers. */
import { TrainingError } from '../../core/errors.ts';
import { settingNumber } from '../../core/setting-number.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Credit, CreditedBatch, LogProbPass, TokenKinds } from '../credit.ts';
import type { Trajectory } from '../trajectory.ts';
import { creditBatch } from '../credit/credit-batch.ts';
import { teacherScores } from '../credit/teacher-scores.ts';
import type { Teacher } from '../teacher.ts';
import type { LossTerm } from '../token-loss.ts';
import type { TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';
import { assertRoleHasValues } from '../losses/loss-roles.ts';
import { logProbPass, type PassOptions } from '../gradients/log-prob-pass.ts';
import { batchReason } from './batch-reason.ts';
import type { PhaseClock } from './phase-clock.ts';
import { adamOptions, isDecayTooLarge, lossesOfStep, lowerRateFlags, splitOfStep, temperatureOfStep } from '../config/training-schedule.ts';
import { rolesOf } from '../trajectory-branches.ts';
import { weightsFault } from '../records/usable-version.ts';
import { updateShift } from './update-shift.ts';
import { reachOf, unmovedReason, withoutUpdate } from './unmoved.ts';
import { type PolicyUpdate, updatePolicy } from './update-policy.ts';

export interface StepParts extends Omit<PassOptions, 'temperature'> {
  readonly config: TrainingConfig;
  readonly losses: readonly LossTerm[];
  readonly source: Pick<TrajectorySource, 'take'>;
  readonly credit: Credit;
  /** The tag of each token, if a loss or the credit needs it. @default none does */
  readonly kinds?: TokenKinds;
  /** Whose log-probs train the policy, if `algorithm.teacher` is set. @default none */
  readonly teacher?: Teacher;
  readonly timer: PhaseClock;
  /** Called before each change of the weights. @default ignored */
  readonly onUpdate?: () => void;
  /** Called when the weights are again as they were before the step. @default ignored */
  readonly onTakenBack?: () => void;
}

export interface TrainedStep {
  readonly batch: TrajectoryBatch;
  readonly work: CreditedBatch;
  readonly update: PolicyUpdate;
}

/**
 * Throws TrainingError for a step that leaves weights which cannot be used; the backend then has those from before the step.
 * @param version of the backend's weights
 */
export async function trainStep(step: number, version: number, parts: StepParts): Promise<TrainedStep> {
  const { config, losses, source, credit, kinds = null, teacher, backend, budget, timer, signal, onUpdate, onTakenBack } = parts;
  const pass = { backend, budget, temperature: temperatureOfStep(config, step), signal };
  const batch = await timer.measure('rollouts', () => source.take(step, signal));
  // A source knows its roles before it plays, an agent only then.
  for (const role of new Set(batch.trajectories.filter(({ branches }) => branches !== undefined).flatMap(rolesOf))) assertRoleHasValues(config, role);
  const passOver: LogProbPass = (sequences, adapter) => logProbPass(sequences, adapter, pass);
  const teach =
    teacher === undefined
      ? null
      : (played: readonly Trajectory[]) => teacherScores(played, { teacher, algorithm: config.algorithm, step, pass: passOver, signal });
  const work = await timer.measure('forward', () => creditBatch(credit, batch.trajectories, { config, step, kinds, pass: passOver, teach }));
  let isHeld = false;
  const hold = async () => {
    if (!isHeld) await timer.measure('update', () => backend.hold());
    isHeld = true;
    onUpdate?.();
  };
  const adam = adamOptions(config, step);
  const update = await updatePolicy(work, lossesOfStep(losses, config, step), {
    ...pass,
    algorithm: splitOfStep(config, step),
    adam,
    version,
    timer,
    skipKl: config.guards.skipKl,
    onUpdate: hold,
  });
  const fault = update.applied === 0 ? null : await timer.measure('update', () => weightsFault(backend, batch.trajectories, signal));
  if (fault !== null) {
    await backend.restore();
    onTakenBack?.();
    throw takenBack(step, fault, config);
  }
  const unmoved =
    update.applied === 0
      ? null
      : await timer.measure('update', () => unmovedReason(update, { adam, version, backend, reach: reachOf(config, step) }));
  if (unmoved !== null) return { batch, work, update: withoutUpdate(update, unmoved) };
  const { reason } = update;
  if (reason === null) {
    const shift = await timer.measure('forward', () => updateShift(update.before, pass));
    return { batch, work, update: { ...update, values: { ...update.values, ...shift } } };
  }
  return {
    batch,
    work,
    update: {
      ...update,
      reason: batchReason(reason, batch.trajectories, { ...config.algorithm.advantage, maxTokens: config.rollouts.maxTokens }),
    },
  };
}

function takenBack(step: number, fault: string, config: TrainingConfig): TrainingError {
  const rate = settingNumber(adamOptions(config, step).learningRate);
  const resumeFlags = lowerRateFlags(config, step);
  const { weightDecay } = config.optimizer;
  const what = isDecayTooLarge(config, step)
    ? `Its weight decay of ${settingNumber(weightDecay)} multiplies every weight by 1 - ${rate} × ${settingNumber(weightDecay)} (learning rate × weight decay)`
    : `Its learning rate was ${rate}`;
  return new TrainingError(`Step ${step} was taken back, because ${fault}. ${what}; lower it, and continue from step ${step - 1}`, { resumeFlags });
}
