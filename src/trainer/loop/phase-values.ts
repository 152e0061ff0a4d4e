import type { PhaseTimer } from './phase-timer.ts';
import type { RunState } from './run-state.ts';
import type { SampledBatch } from '../sources/sample-rollouts.ts';
import type { Published } from '../publisher/served-policy.ts';
import type { PolicyUpdate } from './update-policy.ts';

/** A step's times, speeds and publish results, by their names in metrics.ts. */
export function phaseValues(step: {
  readonly timer: PhaseTimer;
  readonly state: RunState;
  readonly batch: SampledBatch;
  readonly update: PolicyUpdate;
  readonly published: Published | null;
}): Record<string, number | null> {
  const { timer, state, batch, update, published } = step;
  const report = published?.ok === true ? published.report : null;
  const [forward, backward, rollouts] = [timer.seconds('forward'), timer.seconds('backward'), timer.seconds('rollouts')];
  const sampled = batch.trajectories.reduce((sum, { reward, targets }) => sum + (reward === null ? 0 : targets.length), 0);
  return {
    policy_version: state.version,
    sampling_attempts: batch.attempts,
    learning_rate: update.learningRate,
    step_seconds: timer.totalSeconds,
    rollouts_seconds: rollouts,
    forward_seconds: forward,
    backward_seconds: backward,
    update_seconds: timer.seconds('update'),
    publish_seconds: timer.seconds('publish'),
    publish_load_seconds: report?.loadSeconds ?? null,
    checkpoint_seconds: state.takeCheckpointSeconds(),
    overhead_cpu_seconds: timer.cpuSeconds,
    probe_difference_mean: report?.probeMeanDifference ?? null,
    probe_difference_max: report?.probeMaxDifference ?? null,
    sampled_tokens_per_second: rollouts === 0 ? null : sampled / rollouts,
    trained_tokens_per_second: forward + backward === 0 ? null : (update.values['forwarded_tokens'] ?? 0) / (forward + backward),
  };
}
