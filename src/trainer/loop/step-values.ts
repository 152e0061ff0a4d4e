import type { CreditedBatch } from '../credit.ts';
import type { CheckpointWriter } from './checkpoint-writer.ts';
import type { PhaseClock } from './phase-clock.ts';
import type { Progress } from './progress.ts';
import type { PolicyUpdate } from './update-policy.ts';
import type { Published } from '../publisher/served-policy.ts';
import type { TrajectoryBatch } from '../trajectory-source.ts';
import { batchValues } from '../records/batch-values.ts';
import type { AddedRollouts } from '../records/rollout-files.ts';

/** The events and figures of a step. */
export interface StepRecord {
  readonly batch: TrajectoryBatch;
  /** What this process played of the step; the rest was on file. */
  readonly played: AddedRollouts;
  readonly work: CreditedBatch;
  readonly update: PolicyUpdate;
  /** Null if nothing was published. */
  readonly served: Published | null;
  readonly timer: PhaseClock;
  /** CPU time of this process when the step began. */
  readonly cpuAtStart: NodeJS.CpuUsage;
  /** Version that was trained. */
  readonly version: number;
  readonly progress: Progress;
  readonly checkpoints: CheckpointWriter;
}

/** All numbers of a step, by their names in metrics.ts. */
export function stepValues({
  batch,
  played,
  work,
  update,
  served,
  timer,
  cpuAtStart,
  version,
  progress,
  checkpoints,
}: StepRecord): Record<string, number | null> {
  const { attempts = 0, values = {} } = batch;
  const isOnFile = attempts > 0 && played.rollouts === 0;
  const report = served?.ok === true ? served.report : null;
  const [forward, backward, rollouts] = [timer.seconds('forward'), timer.seconds('backward'), timer.seconds('rollouts')];
  const computing = forward + backward - (work.values['teacher_seconds'] ?? 0);
  const sampled = attempts === 0 ? 0 : played.tokens;
  const { user, system } = process.cpuUsage(cpuAtStart);
  return {
    ...batchValues(batch, work, { version }),
    ...values,
    ...update.values,
    sequences_dropped: (work.values['sequences_dropped'] ?? 0) + (update.values['sequences_dropped'] ?? 0),
    policy_version: progress.version,
    sampling_attempts: attempts,
    step_seconds: timer.totalSeconds,
    rollouts_seconds: isOnFile ? null : rollouts,
    forward_seconds: forward,
    backward_seconds: backward,
    update_seconds: timer.seconds('update'),
    publish_seconds: timer.seconds('publish'),
    publish_load_seconds: report?.loadSeconds ?? null,
    checkpoint_seconds: checkpoints.takeSeconds(),
    overhead_cpu_seconds: (user + system) / 1e6,
    probe_difference_mean: report?.probeMeanDifference ?? null,
    probe_difference_max: report?.probeMaxDifference ?? null,
    sampled_tokens_per_second: rollouts === 0 || sampled === 0 ? null : sampled / rollouts,
    trained_tokens_per_second: computing <= 0 ? null : update.forwardedTokens / computing,
  };
}
