import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TrainingError } from '../../../src/core/errors.ts';
import type { RatioLossConfig } from '../../../src/trainer/losses/ratio-loss.ts';
import { logProbPass } from '../../../src/trainer/gradients/log-prob-pass.ts';
import type { TrainingSequence } from '../../../src/trainer/credit.ts';
import { type OptimizerStep, optimizerStep, type OptimizerStepOptions } from '../../../src/trainer/loop/optimizer-step.ts';
import { TokenBudget } from '../../../src/trainer/gradients/token-budget.ts';
import { distance } from '../../contracts/gradient-cases.ts';
import { openNano } from '../gradients/torch/nano-backend.ts';
import { skipReason, torchPython } from '../gradients/torch/torch-python.ts';
import { ADAM, type AutogradCase, lossGradients, NanoTrainer, ratioTerm, signal } from '../nano-trainer.ts';

const ADVANTAGES = [1, -1, 0.25, -0.5, 1.5, -1.25, 0.75];

describe.skipIf(torchPython.path === null)(`optimizerStep over the torch worker${skipReason}`, { timeout: 240_000 }, () => {
  let nano: NanoTrainer;
  let sequences: TrainingSequence[];
  beforeAll(async () => {
    nano = await NanoTrainer.open(openNano({ options: { env: { VF_TORCH_MEMORY_LIMIT_TOKENS: '200,160' } } }));
    sequences = await nano.sequences(ADVANTAGES);
  }, 240_000);
  afterAll(() => nano?.[Symbol.asyncDispose]());

  const gradient = (of: readonly TrainingSequence[], changes: Partial<OptimizerStepOptions> = {}) =>
    nano.gradientOf((adam) => optimizerStep(of, nano.stepOptions({ ...changes, adam })));
  const weightsAfter = async (of: readonly TrainingSequence[], changes: Partial<OptimizerStepOptions> = {}) => {
    await nano.reset();
    const step = await optimizerStep(of, nano.stepOptions(changes));
    const weights = await nano.weights();
    await nano.reset();
    return { step, weights };
  };
  const k3 = (coefficient: number): Partial<RatioLossConfig> => ({ kl: { estimator: 'k3', coefficient, clamp: [-10, 10], against: 'reference' } });
  const termsOf = (changes: Partial<RatioLossConfig>) => ({ terms: [ratioTerm(changes)] });
  const constant = (sequence: TrainingSequence, advantage: number) => ({ ...sequence, advantages: sequence.advantages.map(() => advantage) });
  const valueOf = (step: OptimizerStep, name: string) => step.values.byTerm.get('policy')![name]!.value;
  const withReference = async (of: readonly TrainingSequence[], temperature = 1) => {
    const pass = { backend: nano.backend, budget: new TokenBudget(64), temperature, signal };
    const references = await logProbPass(of, 'off', pass);
    return of.map((sequence, i) => ({ ...sequence, referenceLogProbs: references[i]! }));
  };

  it('takes the gradient that torch autograd finds for the same loss: clip, with k3 against the base, with entropy, at a temperature', async () => {
    const warm = await nano.sequences(ADVANTAGES, { temperature: 0.7, seed: 9 });
    const adapter = (await nano.backend.saveAdapter(nano.folder())).directory;
    const common = { adapter, clipLow: 0.2, clipHigh: 0.28, temperature: 1, kl: 0, entropy: 0, sequences };
    const cases: AutogradCase[] = [
      common,
      { ...common, kl: 0.3 },
      { ...common, kl: 0.05, entropy: 0.02 },
      { ...common, temperature: 0.7, kl: 0.1, sequences: warm },
    ];
    const expected = await lossGradients(cases);
    for (const [i, { temperature, kl, entropy, sequences: of }] of cases.entries()) {
      const given = kl > 0 ? await withReference(of, temperature) : of;
      const terms = [ratioTerm({ ...(kl > 0 ? k3(kl) : {}), entropyCoefficient: entropy })];
      const found = await gradient(given, { terms, temperature, budget: new TokenBudget(60) });
      expect(distance(found, expected[i]!)).toBeLessThan(1e-5);
    }
    const { step } = await weightsAfter(sequences);
    expect(valueOf(step, 'clip_fraction')).toBeGreaterThan(0.1);
  });

  it('takes the same gradient however the sequences are packed, up to float32', async () => {
    const whole = await gradient(sequences);
    for (const tokens of [80, 45, 1]) {
      expect(distance(await gradient(sequences, { budget: new TokenBudget(tokens) }), whole)).toBeLessThan(2e-6);
    }
    const { step } = await weightsAfter(sequences, { budget: new TokenBudget(1) });
    expect(step.microBatches).toBe(ADVANTAGES.length);
  });

  it('drops a sequence whose gradient is too large for float32, and counts it in the divisor wherever it is dropped', async () => {
    const [first, ...rest] = sequences;
    const huge = constant(first!, 1e300);
    const { step, weights } = await weightsAfter([huge, ...rest]);
    expect(step).toMatchObject({ outcome: 'applied', dropped: 1 });
    await nano.reset();
    await optimizerStep(rest, nano.stepOptions({}), [huge]);
    expect(await nano.weights()).toEqual(weights);
    await nano.reset();
  });

  it('gives the same step bit for bit when it is taken again', async () => {
    const options = () => ({ budget: new TokenBudget(45) });
    const [first, second] = [await weightsAfter(sequences, options()), await weightsAfter(sequences, options())];
    expect(second).toEqual(first);
    expect(distance(first.weights, await nano.weights())).toBeGreaterThan(0);
  });

  it('counts tokens, batches and losses', async () => {
    const given = await withReference(sequences);
    const { step } = await weightsAfter(given, { ...termsOf({ ...k3(0.5), entropyCoefficient: 0.1 }), budget: new TokenBudget(45) });
    const tokens = sequences.reduce((sum, { targets }) => sum + targets.length, 0);
    expect(step).toMatchObject({
      outcome: 'applied',
      trainedTokens: tokens,
      forwardedTokens: sequences.reduce((sum, { trajectory: { ids } }) => sum + ids.length, 0),
    });
    expect(valueOf(step, 'kl_loss')).toBeCloseTo(0.5 * valueOf(step, 'kl'), 12);
    expect(valueOf(step, 'entropy_loss')).toBeLessThan(0);
    expect(step.values.loss).toBeCloseTo(valueOf(step, 'policy_loss') + valueOf(step, 'kl_loss') + valueOf(step, 'entropy_loss'), 12);
    expect(step.gradNorm).toBeGreaterThan(0);
  });

  it('measures how far server and trainer differ, on what this version sampled and on nothing else', async () => {
    const moved = sequences.map((sequence, i) => ({
      ...sequence,
      trajectory: { ...sequence.trajectory, policy: { model: 'policy', version: i === 0 ? 3 : 2 } },
    }));
    const first = moved[0]!;
    const own = await nano.logProbs(first.trajectory.ids, first.targets);
    const differences = own.map((logProb, i) => Math.abs(logProb - first.logProbs![i]!));
    const { step } = await weightsAfter(moved);
    expect(step.difference.tokens).toBe(first.targets.length);
    expect(step.difference.sum).toBeCloseTo(
      differences.reduce((sum, difference) => sum + difference, 0),
      3,
    );
    expect(step.difference.max).toBeCloseTo(Math.max(...differences), 4);
    expect((await weightsAfter(moved, { version: null })).step.difference.tokens).toBe(0);
  });

  it('takes the same step whether or not it forwards sequences without an advantage, and counts their tokens in the divisor', async () => {
    const budget = () => new TokenBudget(1);
    const without = sequences.map((sequence, i) => (i === 2 || i === 5 ? constant(sequence, 0) : sequence));
    // Not 0, so that it is forwarded, and 0 in float32, so that it moves nothing.
    const forwarded = without.map((sequence) => (sequence.advantages[0] === 0 ? constant(sequence, 1e-300) : sequence));
    const [skipped, all] = [await weightsAfter(without, { budget: budget() }), await weightsAfter(forwarded, { budget: budget() })];
    expect(skipped.weights).toEqual(all.weights);
    expect([skipped.step.microBatches, all.step.microBatches]).toEqual([5, 7]);
    const fewer = await weightsAfter(
      without.filter(({ advantages }) => advantages[0] !== 0),
      { budget: budget() },
    );
    expect(valueOf(skipped.step, 'policy_loss')).not.toBeCloseTo(valueOf(fewer.step, 'policy_loss'), 6);
  });

  it('forwards sequences without an advantage where a penalty pulls at their tokens', async () => {
    const [given] = await withReference(sequences.slice(0, 1).map((sequence) => constant(sequence, 0)));
    expect((await weightsAfter([given!], termsOf(k3(0.1)))).step.outcome).toBe('applied');
    expect((await weightsAfter([given!], termsOf({ entropyCoefficient: 0.1 }))).step.outcome).toBe('applied');
  });

  it('takes no step, and changes nothing, where no token has a loss', async () => {
    const before = await nano.weights();
    const masked = sequences.map((sequence) => ({
      ...sequence,
      targets: new Int32Array(0),
      advantages: new Float64Array(0),
      logProbs: new Float64Array(0),
    }));
    const level = sequences.map((sequence) => constant(sequence, 0));
    for (const nothing of [[], masked, level]) {
      expect((await optimizerStep(nothing, nano.stepOptions())).outcome).toBe('empty');
    }
    expect(await nano.weights()).toEqual(before);
  });

  it('drops a sequence with an advantage or an old log-prob that is not a number, and takes the step of the others', async () => {
    const broken = sequences.map((sequence, i) => (i === 3 ? constant(sequence, NaN) : sequence));
    const holed = sequences.map((sequence, i) =>
      i === 3 ? { ...sequence, oldLogProbs: sequence.oldLogProbs!.map((x, k) => (k === 0 ? NaN : x)) } : sequence,
    );
    // The divisor counts it: a step is not larger because a sequence was dropped.
    const silent = sequences.map((sequence, i) => (i === 3 ? constant(sequence, 0) : sequence));
    for (const tokens of [1, 45, 1e6]) {
      const budget = () => new TokenBudget(tokens);
      const expected = await weightsAfter(silent, { budget: budget() });
      for (const given of [broken, holed]) {
        const { step, weights } = await weightsAfter(given, { budget: budget() });
        expect(step).toMatchObject({ outcome: 'applied', dropped: 1, brokenLosses: ['policy'] });
        expect(distance(weights, expected.weights)).toBeLessThan(2e-6);
      }
    }
    expect((await nano.backend.stats()).retainedBatches).toBe(0);
  });

  it('changes nothing, and keeps nothing, where no sequence has numbers', async () => {
    const before = await nano.weights();
    const broken = sequences.map((sequence) => constant(sequence, NaN));
    const step = await optimizerStep(broken, nano.stepOptions({ budget: new TokenBudget(45) }));
    expect(step).toMatchObject({ outcome: 'not_finite', dropped: sequences.length, brokenLosses: ['policy'] });
    expect(await nano.weights()).toEqual(before);
    expect((await nano.backend.stats()).retainedBatches).toBe(0);
  });

  it('changes nothing where the model itself gives NaN', async () => {
    await optimizerStep(sequences, nano.stepOptions({ adam: { ...ADAM, learningRate: 1e37 } }));
    const before = await nano.weights();
    expect(await optimizerStep(sequences, nano.stepOptions())).toMatchObject({ outcome: 'not_finite', gradNorm: null });
    expect(await nano.weights()).toEqual(before);
    await nano.reset();
    expect((await optimizerStep(sequences, nano.stepOptions())).outcome).toBe('applied');
    await nano.reset();
  });

  describe('out of memory, at more than 200 tokens forward or 160 backward', () => {
    let many: TrainingSequence[];
    beforeAll(() => {
      many = [0, 1, 2].flatMap(() => sequences);
    });

    it('halves the budget until the batches fit, and takes the step that it would have taken with that budget from the start', async () => {
      await nano.reset();
      const budgets: number[] = [];
      const budget = new TokenBudget(350, { onChange: (_, tokens) => budgets.push(tokens) });
      const step = await optimizerStep(many, nano.stepOptions({ budget }));
      expect(step.outcome).toBe('applied');
      expect(budgets.length).toBeGreaterThan(1);
      expect(budget.tokens).toBeLessThanOrEqual(160);
      const found = await nano.weights();
      const { weights, step: expected } = await weightsAfter(many, { budget: new TokenBudget(budget.tokens) });
      expect(found).toEqual(weights);
      expect(step).toEqual(expected);
      expect((await nano.backend.stats()).retainedBatches).toBe(0);
    });

    it('continues with what is left of a pass without gradient', async () => {
      const budget = new TokenBudget(350);
      const pass = { backend: nano.backend, temperature: 1, signal };
      const found = await logProbPass(many, 'on', { ...pass, budget });
      expect(budget.tokens).toBeLessThanOrEqual(200);
      const expected = await logProbPass(sequences, 'on', { ...pass, budget: new TokenBudget(1) });
      for (const [i, values] of found.entries()) {
        const own = expected[i % sequences.length]!;
        expect(values).toHaveLength(own.length);
        expect([...values]).toEqual([...own].map((value) => expect.closeTo(value, 4) as number));
      }
    });

    it('stops the run where one sequence alone does not fit', async () => {
      const ids = new Int32Array(220).fill(7);
      const given = { ...sequences[0]!, ids, trajectory: { ...sequences[0]!.trajectory, ids } };
      await expect(optimizerStep([given], nano.stepOptions())).rejects.toThrow(TrainingError);
    });
  });
});
