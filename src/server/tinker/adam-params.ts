import type { AdamOptions } from '../../core/adam-options.ts';
import type { OptimStep } from '../../schemas/tinker/service.ts';

/** The defaults are the SDK's. */
export function adamOptions(params: OptimStep['adam_params']): AdamOptions {
  const { learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-12, weight_decay = 0, grad_clip_norm: clip = 0 } = params;
  return { learningRate: learning_rate, beta1, beta2, epsilon: eps, weightDecay: weight_decay, maxGradNorm: clip > 0 ? clip : null };
}
