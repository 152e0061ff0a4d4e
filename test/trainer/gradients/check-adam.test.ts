import { describe, expect, it } from 'vitest';
import { checkAdam } from '../../../src/trainer/gradients/check-adam.ts';

const ADAM = { learningRate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxGradNorm: null };

describe('checkAdam', () => {
  it('accepts zeros, and no bound on the norm', () => {
    expect(() => checkAdam(ADAM)).not.toThrow();
    expect(() => checkAdam({ learningRate: 0, beta1: 0, beta2: 0, epsilon: 0, weightDecay: 0, maxGradNorm: 0 })).not.toThrow();
  });

  it.each([
    [{ learningRate: NaN }, /learningRate must be a finite number of at least 0, got NaN/],
    [{ maxGradNorm: -1 }, /maxGradNorm must be a finite number of at least 0, got -1/],
    [{ epsilon: Infinity }, /epsilon must be a finite number of at least 0, got Infinity/],
    // Its correction would be 0, and every weight NaN.
    [{ beta1: 1 }, /betas must be below 1, got 1 and 0\.999/],
    [{ beta2: 1 }, /betas must be below 1, got 0\.9 and 1/],
  ])('refuses %j', (wrong, message) => {
    expect(() => checkAdam({ ...ADAM, ...wrong })).toThrow(message);
    expect(() => checkAdam({ ...ADAM, ...wrong })).toThrow(expect.objectContaining({ code: 'bad_input' }));
  });
});
