import { describe, expect, it } from 'vitest';
import { creditable, rewardPenalties } from '../../../src/trainer/credit/kl-penalty.ts';
import { someConfig } from '../some-config.ts';
import { credits, passOver } from './credit-cases.ts';
import { trajectory } from '../some-trajectories.ts';
import { StillBackend } from '../still-backend.ts';

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
  const penalties = await rewardPenalties(rollouts, algorithm, { pass: passOver(backend) });
  return { penalties, forwarded: backend.forwarded.length };
};
const close = (...values: readonly number[]) => values.map((value) => expect.closeTo(value, 6));

describe('rewardPenalties', () => {
  it('is β times the estimate of each sampled token, by the log-probs of the sampler', async () => {
    const { penalties, forwarded } = await penaltiesOf({ estimator: 'k1' });
    expect(ROLLOUTS.map((each) => penalties!.get(each) && [...penalties!.get(each)!])).toEqual([
      close(0.05, -0.2),
      close(0, 0),
      undefined,
      undefined,
    ]);
    expect(forwarded).toBe(1);
  });

  it.each([
    ['k2', [0.5 * 0.5 ** 2, 0.5 * 2 ** 2]],
    ['k3', [Math.exp(-0.5) + 0.5 - 1, Math.exp(2) - 2 - 1]],
  ])('estimates with %s too', async (estimator, estimates) => {
    const { penalties } = await penaltiesOf({ estimator });
    expect([...penalties!.get(ROLLOUTS[0]!)!]).toEqual(close(...estimates.map((estimate) => 0.1 * estimate)));
  });

  it('is reported as its mean estimate, without its coefficient', async () => {
    const kl = { coefficient: 0.1, placement: 'reward', estimator: 'k1' };
    const values = async (scope: string, rest: object = {}) => {
      const config = someConfig({ algorithm: { kl: { ...kl, ...rest }, advantage: { scope } } });
      return (await credits(config).assign(ROLLOUTS, passOver())).values;
    };
    for (const scope of ['group', 'batch']) expect((await values(scope))['kl']).toBeCloseTo((0.5 - 2 + 0 + 0) / 4, 6);
    expect(await values('group', { coefficient: 0 })).not.toHaveProperty('kl');
  });

  it('keeps the estimate of a token within its clamp', async () => {
    const { penalties } = await penaltiesOf({ estimator: 'k1', clamp: 0.75 });
    expect([...penalties!.get(ROLLOUTS[0]!)!]).toEqual(close(0.05, -0.075));
  });

  it("takes the trainer's own log-probs where those are the old ones, or where the sampler's are unknown", async () => {
    const own = await penaltiesOf({ estimator: 'k1' }, { old_log_probs: 'trainer' });
    expect([...own.penalties!.get(ROLLOUTS[0]!)!]).toEqual(close(0, 0));
    expect(own.forwarded).toBe(2);
    const unknown = [trajectory('a/0', { logProbs: null })];
    const { penalties, forwarded } = await penaltiesOf({ estimator: 'k1' }, {}, unknown);
    expect([[...penalties!.get(unknown[0]!)!], forwarded]).toEqual([close(0, 0), 2]);
  });

  it('measures from the policy that the run began with, which need not be the base', async () => {
    const backend = new StillBackend();
    backend.judge = (_, adapter) => ({ initial: -2, off: -4, on: -1 })[adapter];
    const { penalties } = await penaltiesOf({ estimator: 'k1' }, {}, ROLLOUTS, backend);
    expect([...penalties!.get(ROLLOUTS[0]!)!]).toEqual(close(0.15, -0.1));
  });

  it('is nothing, and costs no pass, where no penalty is part of the reward', async () => {
    for (const kl of [{ coefficient: 0 }, { placement: 'loss' }]) expect(await penaltiesOf(kl)).toEqual({ penalties: null, forwarded: 0 });
  });

  it('leaves out a rollout whose penalty is not a number: nobody can credit it', async () => {
    const given = [trajectory('a/0', { logProbs: Float64Array.of(-1, -2000) }), trajectory('a/1', { logProbs: Float64Array.of(-1, -1) })];
    const { penalties } = await penaltiesOf({ estimator: 'k3', clamp: null }, {}, given);
    expect([...penalties!.keys()].map(({ rolloutId }) => rolloutId)).toEqual(['a/1']);
    expect(creditable(given, penalties).map(({ rolloutId }) => rolloutId)).toEqual(['a/1']);
  });
});

describe('creditable', () => {
  it('is every rollout with a reward where there is no penalty, else those with one and those without tokens', async () => {
    const ids = (penalties: Parameters<typeof creditable>[1]) => creditable(ROLLOUTS, penalties).map(({ rolloutId }) => rolloutId);
    expect(ids(null)).toEqual(['a/0', 'a/1', 'a/3']);
    expect(ids(new Map([[ROLLOUTS[1]!, new Float64Array(2)]]))).toEqual(['a/1', 'a/3']);
  });
});
