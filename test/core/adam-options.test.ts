import { describe, expect, it } from 'vitest';
import { type AdamOptions, adamProblem } from '../../src/core/adam-options.ts';

const ADAM: AdamOptions = { learningRate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxGradNorm: null };

describe('adamProblem', () => {
  it('accepts zeros, and no bound on the norm', () => {
    expect(adamProblem(ADAM)).toBeNull();
    expect(adamProblem({ learningRate: 0, beta1: 0, beta2: 0, epsilon: 1e-30, weightDecay: 0, maxGradNorm: 0 })).toBeNull();
  });

  it.each([
    [{ learningRate: NaN }, /learningRate must be a finite number of at least 0, got NaN/],
    [{ maxGradNorm: -1 }, /maxGradNorm must be a finite number of at least 0, got -1/],
    [{ epsilon: 0 }, /^Adam's epsilon must be above 0, got 0$/],
    // Single precision has no such number.
    [{ epsilon: 1e-50 }, /epsilon must be above 0, got 1e-50/],
    [{ epsilon: Infinity }, /epsilon must be a finite number of at least 0, got Infinity/],
    // Its correction would be 0, and every weight NaN.
    [{ beta1: 1 }, /betas must be below 1, got 1 and 0\.999/],
    [{ beta2: 1 }, /betas must be below 1, got 0\.9 and 1/],
  ])('refuses %j', (wrong, message) => {
    expect(adamProblem({ ...ADAM, ...wrong })).toMatch(message);
  });
});
