import { GradientError } from '../../core/errors.ts';
import type { AdamOptions } from './gradient-backend.ts';

/** Throws GradientError `bad_input` if an option is negative or not finite, or if a beta is 1 or more. */
export function checkAdam(options: AdamOptions): void {
  const { beta1, beta2 } = options;
  const wrong = Object.entries(options).find(([, value]: [string, unknown]) => value !== null && !(Number.isFinite(value) && (value as number) >= 0));
  if (wrong) throw new GradientError(`Adam's ${wrong[0]} must be a finite number of at least 0, got ${wrong[1]}`, { code: 'bad_input' });
  if (beta1 >= 1 || beta2 >= 1) {
    throw new GradientError(`Adam's betas must be below 1, got ${beta1} and ${beta2}`, { code: 'bad_input' });
  }
}
