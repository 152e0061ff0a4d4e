import { describe, expect, it } from 'vitest';
import { TrainingError } from '../../../src/core/errors.ts';
import { klPenalties } from '../../../src/trainer/credit/kl-penalty.ts';
import { TokenBudget } from '../../../src/trainer/loop/token-budget.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';
import { StillBackend } from '../still-backend.ts';

const signal = new AbortController().signal;
const FAILED = { reward: null, error: { type: 'PolicyError', message: 'refused', retryable: true, source: 'policy' as const } };
/** The backend gives -1 for every token, with and without the adapter. */
const ROLLOUTS = [
  trajectory('a/0', { logProbs: Float64Array.of(-0.5, -3) }),
  trajectory('a/1', { logProbs: Float64Array.of(-1, -1) }),
  trajectory('a/2', { ...FAILED, logProbs: Float64Array.of(-9, -9) }),
  trajectory('a/3', { targets: new Int32Array(0), logProbs: new Float64Array(0) }),
];
const penaltiesOf = async (kl: object, rest: object = {}, rollouts = ROLLOUTS, backend = new StillBackend()) => {
  const { algorithm } = someConfig({ algorithm: { kl: { coefficient: 0.1, placement: 'reward', ...kl }, ...rest } });
  const penalty = await klPenalties(rollouts, algorithm, { backend, budget: new TokenBudget(100), temperature: 1, signal });
  return { penalty, forwarded: backend.forwarded.length };
};

describe('klPenalties', () => {
  it('is β times the sum over sampled tokens, by the log-probs of the sampler', async () => {
    const { penalty } = await penaltiesOf({ estimator: 'k1' });
    expect(ROLLOUTS.map((each) => penalty!(each))).toEqual([expect.closeTo(0.1 * (0.5 - 2), 6), expect.closeTo(0, 6), 0, 0]);
  });

  it.each([
    ['k2', 0.5 * 0.5 ** 2 + 0.5 * 2 ** 2],
    ['k3', Math.exp(-0.5) + 0.5 - 1 + Math.exp(2) - 2 - 1],
  ])('estimates with %s too', async (estimator, sum) => {
    const { penalty } = await penaltiesOf({ estimator });
    expect(penalty!(ROLLOUTS[0]!)).toBeCloseTo(0.1 * sum, 6);
  });

  it('keeps the estimate of a token within its clamp', async () => {
    const { penalty } = await penaltiesOf({ estimator: 'k1', clamp: 0.75 });
    expect(penalty!(ROLLOUTS[0]!)).toBeCloseTo(0.1 * (0.5 - 0.75), 6);
  });

  it("takes the trainer's own log-probs where those are the old ones", async () => {
    const { penalty, forwarded } = await penaltiesOf({ estimator: 'k1' }, { old_log_probs: 'trainer' });
    expect(penalty!(ROLLOUTS[0]!)).toBeCloseTo(0, 12);
    expect(forwarded).toBe(2);
  });

  it('measures from the policy that the run began with, which need not be the base', async () => {
    const backend = new StillBackend();
    backend.judge = (_, adapter) => ({ initial: -2, off: -4, on: -1 })[adapter];
    const { penalty } = await penaltiesOf({ estimator: 'k1' }, {}, ROLLOUTS, backend);
    expect(penalty!(ROLLOUTS[0]!)).toBeCloseTo(0.1 * (2 * 2 - 3.5), 6);
  });

  it('is nothing, and costs no pass, where no penalty is part of the reward', async () => {
    for (const kl of [{ coefficient: 0 }, { placement: 'loss' }]) expect(await penaltiesOf(kl)).toEqual({ penalty: null, forwarded: 0 });
  });

  it('refuses a penalty that is not a number: it would spoil its whole group', async () => {
    const rollouts = [trajectory('a/0', { logProbs: Float64Array.of(-1, -2000) })];
    await expect(penaltiesOf({ estimator: 'k3', clamp: null }, {}, rollouts)).rejects.toThrow(TrainingError);
    await expect(penaltiesOf({ estimator: 'k3', clamp: null }, {}, rollouts)).rejects.toThrow(/KL penalty of rollout a\/0.*kl\.clamp/);
  });
});
