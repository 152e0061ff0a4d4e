/** Updates that leave the policy as it was: the version that they would make is the one before. */
import type { AdamOptions } from '../../core/adam-options.ts';
import { settingNumber } from '../../core/setting-number.ts';
import type { GradientComputation } from '../gradient-backend.ts';
import type { SkipReason } from '../skip-reason.ts';
import type { PolicyUpdate } from './update-policy.ts';

interface Updated {
  readonly adam: AdamOptions;
  /** Version before the update. */
  readonly version: number;
  readonly backend: Pick<GradientComputation, 'hasMoved' | 'restore'>;
}

/** Says why an update whose backend holds the weights before it changed nothing; null if it did, or if its learning rate is 0, as in a schedule. */
export async function unmovedReason({ values }: Pick<PolicyUpdate, 'values'>, { adam, version, backend }: Updated): Promise<SkipReason | null> {
  const { learningRate, maxGradNorm } = adam;
  const gradNorm = values['grad_norm'] ?? 0;
  if (learningRate === 0) return null;
  const isWithout = Math.fround(Math.min(gradNorm, maxGradNorm ?? Infinity)) === 0;
  if (await backend.hasMoved()) {
    // Later, the moments of earlier gradients move the weights. Before, only weight decay does, and that is not learning.
    if (!isWithout || version > 0) return null;
    await backend.restore();
  }
  if (gradNorm === 0) return { kind: 'no_gradient', text: 'the gradient is 0 (grad_norm), so every weight stayed as it was' };
  const clip = maxGradNorm !== null && maxGradNorm < gradNorm ? ` and optimizer.max_grad_norm ${settingNumber(maxGradNorm)}` : '';
  return {
    kind: 'too_small',
    text: `the update is smaller than float32 can hold, at the learning rate ${settingNumber(learningRate)}${clip}, so every weight stayed as it was`,
  };
}

/** The update as one that was skipped. */
export function withoutUpdate(update: PolicyUpdate, reason: SkipReason): PolicyUpdate {
  const skipped = (update.values['optimizer_steps_skipped'] ?? 0) + update.applied;
  return { ...update, applied: 0, reason, values: { ...update.values, optimizer_steps: 0, optimizer_steps_skipped: skipped } };
}
