import { GradientError } from '../../core/errors.ts';
import { adamProblem } from '../../engine/training/adam-problem.ts';
import type { AdamOptions } from '../gradient-backend.ts';

/** Throws GradientError `bad_input` if an option is negative or not finite, or if a beta is 1 or more. */
export function checkAdam(options: AdamOptions): void {
  const problem = adamProblem(options);
  if (problem !== null) throw new GradientError(problem, { code: 'bad_input' });
}
