/** REINFORCE++ and RLOO as configs/train sets them, against the formulas of the papers and numbers of verl's own functions. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseTrain } from '../../cli/train/parse-train.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';
import { trainingConfigFromWire } from '../../../src/schemas/training-config.ts';
import { advantagesOf, credits, passOver, spoken, TableBackend } from './credit-cases.ts';

const CONFIGS = join(import.meta.dirname, '../../../configs/train');

/** Log-probs of each sampled token under the sampler and under the policy at the start; `null` is an observation. */
type Token = readonly [own: number, reference: number] | null;
const ROLLOUTS: readonly { readonly reward: number; readonly tokens: readonly Token[] }[] = [
  {
    reward: 1,
    tokens: [
      [-0.5, -0.7],
      [-1, -0.4],
      [-0.25, -0.5],
    ],
  },
  { reward: 0, tokens: [[-2, -1], null, [-0.75, -0.5], [-1.5, -2.5]] },
  { reward: 0.5, tokens: [[-0.1, -0.3]] },
];
const BETA = 0.1;
const ESTIMATES = { none: () => 0, k1: (d: number) => d, k2: (d: number) => (d * d) / 2 };
type Estimator = keyof typeof ESTIMATES;

/**
 * verl 0.9.1 in float64: compute_reinforce_plus_plus_outcome_advantage (gamma 1) and compute_rloo_outcome_advantage (one group) on the rewards per
 * token `-0.1 · kl_penalty_forward(...)`, with the reward at the last token.
 */
const VERL = {
  reinforcePlusPlus: {
    none: [[0.9999999821428577, 0.9999999821428577, 0.9999999821428577], [-0.9999999792857148, -0.9999999792857148, -0.9999999792857148], [0]],
    k1: [
      [1.0091897190043329, 1.0468661351323405, 0.9338368867483176],
      [-0.8557928793320487, -1.0441749599720875, -1.091270480132097],
      [0.0013455875801266445],
    ],
    k2: [
      [0.97414550315007, 0.9779404351922298, 1.012094823571669],
      [-1.075117799616277, -0.9802444985622796, -0.9743149172464047],
      [0.06549646230540843],
    ],
  },
  rloo: {
    none: [[0.75, 0.75, 0.75], [-0.75, -0.75, -0.75], [0]],
    k1: [[0.7625, 0.7625, 0.7625], [-0.7225, -0.7225, -0.7225], [-0.04]],
    k2: [[0.7794375, 0.7794375, 0.7794375], [-0.8405625, -0.8405625, -0.8405625], [0.061125]],
  },
} as const;

const penalties = (estimator: Estimator) =>
  ROLLOUTS.map(({ tokens }) => tokens.flatMap((token) => (token === null ? [] : [BETA * ESTIMATES[estimator](token[0] - token[1])])));
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** arXiv 2501.03262: A_t = r − β Σ_{i ≥ t} KL_i, less its mean over the tokens of the batch, over their standard deviation. */
function reinforcePlusPlus(estimator: Estimator): number[][] {
  const returns = penalties(estimator).map((own, i) => own.map((_, t) => ROLLOUTS[i]!.reward - sum(own.slice(t))));
  const mean = sum(returns.flat()) / returns.flat().length;
  const std = Math.sqrt(sum(returns.flat().map((value) => (value - mean) ** 2)) / (returns.flat().length - 1));
  return returns.map((own) => own.map((value) => (value - mean) / std));
}

/** arXiv 2402.14740: R = r − β KL(rollout); A = R minus the mean of the other rollouts of the row. */
function rloo(estimator: Estimator): number[][] {
  const rewards = penalties(estimator).map((own, i) => ROLLOUTS[i]!.reward - sum(own));
  const others = (i: number) => sum(rewards.filter((_, j) => j !== i)) / (rewards.length - 1);
  return penalties(estimator).map((own, i) => own.map(() => rewards[i]! - others(i)));
}

/** What the configuration of the file credits, with this estimator instead of its own. */
async function credited(file: string, estimator: Estimator, flags: readonly string[] = []): Promise<number[][]> {
  const parsed = parseTrain([join(CONFIGS, file), ...flags]);
  const { wire } = await resolveTraining(parsed, { variables: {}, environmentFile: join(CONFIGS, 'no such file') });
  const { algorithm, rollouts } = trainingConfigFromWire(wire);
  const kl = estimator === 'none' ? { ...algorithm.kl, coefficient: 0 } : { ...algorithm.kl, coefficient: BETA, estimator };
  const reference: Record<number, number> = {};
  const given = ROLLOUTS.map(({ reward, tokens }, i) => {
    const sampled = tokens.map((token, t) => (token === null ? null : ([10 * i + t + 1, token[0]] as const)));
    for (const [t, token] of tokens.entries()) if (token !== null) reference[10 * i + t + 1] = token[1];
    return { ...spoken(`a/${i}`, reward, sampled), ...(rollouts.rolloutsPerExample === 1 ? { groupId: `row ${i}` } : {}) };
  });
  const batch = await credits({ algorithm: { ...algorithm, kl }, rollouts }).assign(given, passOver(new TableBackend({ initial: reference })));
  return Object.values(advantagesOf(batch));
}

const close = (rows: readonly (readonly number[])[]) => rows.map((own) => own.map((value) => expect.closeTo(value, 6)));
const ESTIMATORS = Object.keys(ESTIMATES) as Estimator[];

describe('configs/train/reinforce-plus-plus.toml', () => {
  it.each(ESTIMATORS)('has the advantages of the paper and of verl, KL estimated by %s', async (estimator) => {
    const found = await credited('reinforce-plus-plus.toml', estimator);
    expect(found).toEqual(close(reinforcePlusPlus(estimator)));
    expect(found).toEqual(close(VERL.reinforcePlusPlus[estimator]));
  });

  it('has them too with one rollout of each row, as in the paper', async () => {
    expect(await credited('reinforce-plus-plus.toml', 'k1', ['-n', '64', '-r', '1'])).toEqual(close(VERL.reinforcePlusPlus.k1));
  });
});

describe('configs/train/rloo.toml', () => {
  it.each(ESTIMATORS)('has the advantages of the paper and of verl, KL estimated by %s', async (estimator) => {
    const found = await credited('rloo.toml', estimator);
    expect(found).toEqual(close(rloo(estimator)));
    expect(found).toEqual(close(VERL.rloo[estimator]));
  });
});
