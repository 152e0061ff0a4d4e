/** The credits on whole batches, against the formulas of their papers in numpy: test/golden/producers/credit.py. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createCredit as baselineVariant } from '../../../examples/credit/reinforce-plus-plus-baseline.ts';
import type { Credit } from '../../../src/trainer/credit.ts';
import { checkedCredit } from '../../../src/trainer/credit/checked-credit.ts';
import { creditBatch } from '../../../src/trainer/credit/credit-batch.ts';
import { builtInCredit } from '../../../src/trainer/credit/registry.ts';
import type { TrainingConfig } from '../../../src/schemas/training-config.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';

interface Rollout {
  readonly reward: number;
  readonly turns: readonly { readonly tokens: number; readonly reward: number | null }[];
  readonly log_probs: readonly number[];
  readonly reference_log_probs: readonly number[];
}

interface Case {
  readonly method: string;
  readonly config: Readonly<Record<string, string | number>>;
  readonly batch: readonly (readonly Rollout[])[];
  readonly advantages: readonly (readonly (readonly number[])[])[];
}

const { made_by: stamp, cases } = JSON.parse(readFileSync(join(import.meta.dirname, '../../golden/credit.json'), 'utf8')) as {
  readonly made_by: Readonly<Record<string, unknown>>;
  readonly cases: readonly Case[];
};

const SETTINGS: Readonly<Record<string, (config: Case['config']) => Record<string, unknown>>> = {
  grpo: ({ std, epsilon }) => ({ advantage: { std, epsilon } }),
  dr_grpo: () => ({ advantage: { std: 'none' } }),
  rloo: () => ({ advantage: { std: 'none', baseline: 'leave_one_out' } }),
  reinforce_pp: ({ beta, estimator }) => ({
    advantage: { scope: 'batch', weighting: 'token', std: 'sample' },
    kl: { coefficient: beta, placement: 'reward', estimator, clamp: 'none' },
    old_log_probs: 'sampler',
  }),
  reinforce_pp_baseline: () => ({ advantage: { use: './baseline.ts' } }),
  mt_grpo_returns: ({ std, epsilon, gamma, compare }) => ({ advantage: { use: 'turns', std, epsilon, args: { gamma, compare } } }),
  mt_grpo_sum: ({ std, epsilon, turn_weight }) => ({ advantage: { use: 'turns', std, epsilon, args: { estimate: 'sum', turn_weight } } }),
};

function creditOf(method: string, config: TrainingConfig): Credit {
  return method === 'reinforce_pp_baseline' ? checkedCredit(baselineVariant, config, './baseline.ts') : builtInCredit(config);
}

/** A rollout whose turns are separated by one token of the environment. */
function played({ reward, turns, log_probs: logProbs }: Rollout, g: number, index: number): Trajectory {
  const targets: number[] = [];
  let length = 1;
  for (const { tokens } of turns) {
    for (let t = 0; t < tokens; t++) targets.push(length++);
    length++;
  }
  return trajectory(`${g}/${index}`, {
    reward,
    ids: new Int32Array(length),
    promptLength: 1,
    targets: Int32Array.from(targets),
    logProbs: Float64Array.from(logProbs),
    turnRewards: turns.map((turn) => turn.reward),
  });
}

async function credited({ method, config: settings, batch }: Case): Promise<number[][][]> {
  const config = someConfig({ algorithm: { constant_groups: 'keep', ...SETTINGS[method]!(settings) } });
  const references = new Map<Int32Array, Float64Array>();
  const trajectories = batch.flatMap((row, g) =>
    row.map((rollout, i) => {
      const own = played(rollout, g, i);
      references.set(own.ids, Float64Array.from(rollout.reference_log_probs));
      return own;
    }),
  );
  const pass = async (all: readonly Pick<Trajectory, 'ids'>[]) => all.map(({ ids }) => references.get(ids)!);
  const { groups } = await creditBatch(creditOf(method, config), trajectories, { config, step: 1, pass });
  return groups.map((group) => group.map(({ advantages }) => [...advantages]));
}

describe('credits against numpy', () => {
  it.each(cases.map((each, i) => [`${i} ${each.method} ${JSON.stringify(each.config)}`, each] as const))('case %s', async (_, each) => {
    const found = await credited(each);
    expect(found.map((row) => row.map(({ length }) => length))).toEqual(each.advantages.map((row) => row.map(({ length }) => length)));
    const differences = found.flatMap((row, g) => row.flatMap((own, i) => own.map((value, t) => Math.abs(value - each.advantages[g]![i]![t]!))));
    expect(Math.max(...differences)).toBeLessThan(1e-9);
  });

  it('has the stamp of its producer, and cases of every method', () => {
    expect(stamp).toMatchObject({ script: 'test/golden/producers/credit.py', seed: 37 });
    expect(new Set(cases.map(({ method }) => method))).toEqual(new Set(Object.keys(SETTINGS)));
    expect(cases).toHaveLength(78);
  });
});
