/** Updates that leave the policy as it was: the version that they would make is the one before. */
import type { AdamOptions } from '../../core/adam-options.ts';
import { settingNumber } from '../../core/setting-number.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { adamOptions, peakRate, totalSteps } from '../config/training-schedule.ts';
import type { GradientComputation } from '../gradient-backend.ts';
import type { SkipReason } from '../skip-reason.ts';
import type { PolicyUpdate } from './update-policy.ts';

interface Updated {
  readonly adam: AdamOptions;
  /** Version before the update. */
  readonly version: number;
  readonly backend: Pick<GradientComputation, 'movement' | 'restore'>;
  /** The factor by which the change of a weight in this step can grow on the way to an output of its layer at the end of the run. */
  readonly reach: number;
}

/**
 * A change of a layer's output, relative to that output, which float32 cannot show. A weight near 0 holds far smaller changes, such as those of B = 0 at the rate 1e-30: it counts
 * as moved only if all steps of the run together could change an output by more. The bound is that of float32 for bf16 too, because the adapter is kept in float32 and steps that
 * bf16 does not show one by one add up there.
 */
const LEAST_CHANGE = 2 ** -24;

const NO_GRADIENT: SkipReason = { kind: 'no_gradient', text: 'the gradient is 0 (grad_norm), so every weight stayed as it was' };

/** The reach of a step whose update scales with its rate: α times the change of a weight of B, at the peak of the schedule, in every step. */
export function reachOf(config: Pick<TrainingConfig, 'optimizer' | 'sft' | 'steps' | 'lora'>, step: number): number {
  const { learningRate } = adamOptions(config, step);
  return (totalSteps(config) * config.lora.alpha * peakRate(config, step)) / learningRate;
}

/** Says why an update whose backend holds the weights before it changed nothing; null if it did, or if its learning rate is 0, as in a schedule. */
export async function unmovedReason(
  { values }: Pick<PolicyUpdate, 'values'>,
  { adam, version, backend, reach }: Updated,
): Promise<SkipReason | null> {
  const { learningRate, maxGradNorm } = adam;
  const gradNorm = values['grad_norm'] ?? 0;
  if (learningRate === 0) return null;
  const isWithout = Math.fround(Math.min(gradNorm, maxGradNorm ?? Infinity)) === 0;
  const movement = await backend.movement();
  // The weights cannot be seen. The moments of earlier gradients may move them without a gradient, except in the first update.
  if (movement === null) return gradNorm === 0 && version === 0 ? NO_GRADIENT : null;
  const isLost = movement * reach < LEAST_CHANGE;
  if (movement > 0) {
    // Later, the moments of earlier gradients move the weights. Before, only weight decay does, and that is not learning.
    if (!isLost && (!isWithout || version > 0)) return null;
    await backend.restore();
  }
  if (gradNorm === 0) return NO_GRADIENT;
  const clip = maxGradNorm !== null && maxGradNorm < gradNorm ? ` and optimizer.max_grad_norm ${settingNumber(maxGradNorm)}` : '';
  return {
    kind: 'too_small',
    text:
      movement > 0 && isLost
        ? `the update changed no weight by more than ${movement.toPrecision(2)}, at the learning rate ${settingNumber(learningRate)}${clip}, and all steps of the run together would change no log-prob, so it was taken back`
        : `the update is smaller than float32 can hold, at the learning rate ${settingNumber(learningRate)}${clip}, so every weight stayed as it was`,
  };
}

/** The update as one that was skipped. */
export function withoutUpdate(update: PolicyUpdate, reason: SkipReason): PolicyUpdate {
  const skipped = (update.values['optimizer_steps_skipped'] ?? 0) + update.applied;
  return { ...update, applied: 0, reason, values: { ...update.values, optimizer_steps: 0, optimizer_steps_skipped: skipped } };
}
