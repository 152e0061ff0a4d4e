import { GradientError } from '../../core/errors.ts';
import type { AdamOptions } from './gradient-backend.ts';

/** Throws GradientError `bad_input` where an option is no number of at least 0, or a beta not below 1. */
export function checkAdam(options: AdamOptions): void {
  const { beta1, beta2 } = options;
  const wrong = Object.entries(options).find(([, value]: [string, unknown]) => value !== null && !(Number.isFinite(value) && (value as number) >= 0));
  if (wrong) throw new GradientError(`Expected ${wrong[0]} to be a number of at least 0, got ${wrong[1]}`, { code: 'bad_input' });
  if (beta1 >= 1 || beta2 >= 1) {
    throw new GradientError(`Expected the betas of Adam below 1, got ${beta1} and ${beta2}`, { code: 'bad_input' });
  }
}
