import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { lossTerms } from '../../../src/trainer/losses/loss-terms.ts';
import { STEP_METRICS } from '../../../src/trainer/records/metrics.ts';
import type { TrainingSequence } from '../../../src/trainer/credit.ts';
import { optimizerStep } from '../../../src/trainer/loop/optimizer-step.ts';
import { adamOptions } from '../../../src/trainer/config/training-schedule.ts';
import { updatePolicy } from '../../../src/trainer/loop/update-policy.ts';
import { distance } from '../../contracts/gradient-cases.ts';
import { openNano } from '../gradients/embedded/nano-backend.ts';
import type { EmbeddedBackend } from '../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { NanoTrainer } from '../nano-trainer.ts';
import { someConfig } from '../some-config.ts';

const OPTIMIZER = { learning_rate: 1e-3, beta2: 0.95, max_grad_norm: 1 };

describe('updatePolicy over the embedded backend', () => {
  let nano: NanoTrainer<EmbeddedBackend>;
  let groups: TrainingSequence[][];
  beforeAll(async () => {
    nano = await NanoTrainer.open(openNano());
    const sequences = await nano.sequences([1, -1, 0.5, -0.5, 1.5, -1.5]);
    groups = [0, 2, 4].map((first) => sequences.slice(first, first + 2));
  });
  afterAll(() => nano?.[Symbol.asyncDispose]());
  beforeEach(() => nano.reset());

  const configOf = (algorithm: object, rest: object = {}) => someConfig({ algorithm, optimizer: OPTIMIZER, steps: 10, ...rest });
  const termsOf = (algorithm: object) => {
    const config = configOf(algorithm);
    return lossTerms(config, { algorithm: config.algorithm, responseTokens: 100 });
  };
  const run = (of: readonly (readonly TrainingSequence[])[], algorithm: object) => {
    const { backend, budget, timer, signal } = nano.stepOptions();
    const config = configOf(algorithm);
    const options = { backend, budget, timer, signal, temperature: 1, algorithm: config.algorithm, adam: adamOptions(config, 1), version: 3 };
    return updatePolicy({ groups: of, values: {}, constantReason: 'all rewards are equal' }, termsOf(algorithm), options);
  };
  const update = async (algorithm: object, of: readonly (readonly TrainingSequence[])[] = groups) => {
    await nano.reset();
    const result = await run(of, algorithm);
    return { ...result, weights: await nano.weights() };
  };
  const own = (sequence: TrainingSequence, adapter: 'on' | 'off' = 'on') => nano.logProbs(sequence.trajectory.ids, sequence.targets, adapter);

  it('takes its minibatches in order, epoch after epoch, each one optimiser step of whole groups', async () => {
    const { weights, values, applied } = await update({ minibatches: 2, epochs: 2 });
    expect([applied, values['optimizer_steps']]).toEqual([4, 4]);
    await nano.reset();
    const adam = adamOptions(configOf({}), 1);
    const old = (sequence: TrainingSequence): TrainingSequence => ({ ...sequence, oldLogProbs: sequence.logProbs, referenceLogProbs: null });
    const minibatches = [groups.slice(0, 1), groups.slice(1)].map((each) => each.flat().map(old));
    for (const minibatch of [...minibatches, ...minibatches]) {
      await optimizerStep(minibatch, nano.stepOptions({ terms: termsOf({}), adam }));
    }
    expect(await nano.weights()).toEqual(weights);
    expect(distance(weights, (await update({ minibatches: 1, epochs: 2 })).weights)).toBeGreaterThan(0);
  });

  it('makes no more minibatches than there are groups', async () => {
    expect((await update({ minibatches: 10 })).values['optimizer_steps']).toBe(3);
  });

  it('compares with what the sampler said, or with its own log-probs before the first update', async () => {
    const [sampler, trainer, twice] = [
      await update({ old_log_probs: 'sampler' }),
      await update({ old_log_probs: 'trainer' }),
      await update({ old_log_probs: 'trainer', epochs: 2 }),
    ];
    expect(Math.abs(sampler.values['ratio_max']! - 1)).toBeGreaterThan(0.1);
    expect([trainer.values['ratio_min'], trainer.values['ratio_max'], trainer.values['approx_kl']]).toEqual([1, 1, 0]);
    // The first of two updates has a ratio of 1, the second has moved; the denominator of both is the same.
    expect(twice.values['ratio_max']).toBeGreaterThan(1);
    await nano.reset();
    const given: TrainingSequence[] = [];
    for (const sequence of groups.flat()) given.push({ ...sequence, logProbs: await own(sequence) });
    const [fromSampler, fromTrainer] = [
      await update({ old_log_probs: 'sampler', epochs: 2 }, [given]),
      await update({ old_log_probs: 'trainer', epochs: 2 }, [given]),
    ];
    // The trainer computes log-probs of packed sequences, the test one sequence at a time: some CPUs round the two differently.
    expect(distance(fromSampler.weights, fromTrainer.weights)).toBeLessThan(1e-6);
  });

  it('computes reference log-probs with the frozen base, and none without a penalty', async () => {
    const { values } = await update({ kl: { coefficient: 0.1, estimator: 'k1', clamp: null } });
    await nano.reset();
    let [sum, tokens] = [0, 0];
    for (const sequence of groups.flat()) {
      const [on, off] = [await own(sequence), await own(sequence, 'off')];
      sum += on.reduce((total, value, i) => total + value - off[i]!, 0);
      tokens += on.length;
    }
    expect(values['kl']).toBeCloseTo(sum / tokens, 5);
    expect(values['kl_loss']).toBeCloseTo((0.1 * sum) / tokens, 6);
    expect(Object.keys((await update({})).values).filter((name) => name.startsWith('kl'))).toEqual([]);
  });

  it('weighs tokens by how far the sampler was from the trainer, if that is corrected', async () => {
    const { values } = await update({ old_log_probs: 'trainer', correction: { level: 'token', max: 1.2 } });
    await nano.reset();
    const weights: number[] = [];
    for (const sequence of groups.flat()) {
      for (const [i, value] of (await own(sequence)).entries()) weights.push(Math.min(Math.exp(value - sequence.logProbs![i]!), 1.2));
    }
    const mean = weights.reduce((total, weight) => total + weight, 0) / weights.length;
    expect(values['correction_mean']).toBeCloseTo(mean, 4);
    expect(values['correction_outside_fraction']).toBeCloseTo(weights.filter((weight) => weight === 1.2).length / weights.length, 6);
  });

  it('adds the entropy bonus where it has a weight', async () => {
    const [plain, bonus] = [await update({}), await update({ entropy_coefficient: 0.05 })];
    expect(plain.values).not.toHaveProperty('entropy_loss');
    expect(bonus.values['entropy_loss']).toBeLessThan(0);
    expect(distance(bonus.weights, plain.weights)).toBeGreaterThan(0);
  });

  it('measures the difference from the server before the first update, and not after it', async () => {
    const [once, more] = [await update({}), await update({ epochs: 3 })];
    expect(once.values['log_prob_difference_mean']).toBeGreaterThan(0.1);
    expect(more.values['log_prob_difference_mean']).toBeCloseTo(once.values['log_prob_difference_mean']!, 12);
  });

  it('changes nothing, and says why, where there is nothing to learn', async () => {
    const before = await nano.weights();
    const masked = groups.map((group) => group.map((sequence) => ({ ...sequence, targets: new Int32Array(0), advantages: new Float64Array(0) })));
    const constant = (value: number) =>
      groups.map((group) => group.map((sequence) => ({ ...sequence, advantages: sequence.advantages.map(() => value) })));
    const uninformed = { kind: 'constant', text: 'all rewards are equal' };
    const silent = masked.map((group) => group.map((each) => ({ ...each, trajectory: { ...each.trajectory, targets: each.targets } })));
    expect(await run([], {})).toMatchObject({ applied: 0, reason: uninformed });
    expect(await run(constant(0), {})).toMatchObject({ applied: 0, reason: uninformed });
    expect(await run(masked, {})).toMatchObject({
      applied: 0,
      reason: { kind: 'masked', text: expect.stringMatching(/no rollout has a token to train; rollouts.truncated/) },
    });
    expect(await run(silent, {})).toMatchObject({ applied: 0, reason: { kind: 'no_loss', text: 'the policy wrote no token in any rollout' } });
    const result = await run(constant(NaN), { minibatches: 3 });
    expect(result).toMatchObject({ applied: 0, reason: { kind: 'not_finite', text: 'the gradient of the loss "policy" was not finite' } });
    expect(result.values).toMatchObject({ optimizer_steps: 0, optimizer_steps_skipped: 3, sequences_dropped: 6, loss: null, grad_norm: null });
    expect(await nano.weights()).toEqual(before);
  });

  it('applies the minibatches that can be applied, and counts the others', async () => {
    const broken = groups.map((group, i) =>
      i === 1 ? group.map((sequence) => ({ ...sequence, advantages: sequence.advantages.map(() => NaN) })) : group,
    );
    const { values, reason } = await update({ minibatches: 3 }, broken);
    expect([values['optimizer_steps'], values['optimizer_steps_skipped'], reason]).toEqual([2, 1, null]);
    expect(Number.isFinite(values['loss'])).toBe(true);
  });

  it('uses only defined names', async () => {
    const names = new Set(STEP_METRICS.map(({ name }) => name));
    expect(Object.keys((await update({ kl: { coefficient: 0.1 }, entropy_coefficient: 0.1 })).values).filter((name) => !names.has(name))).toEqual([]);
  });
});
