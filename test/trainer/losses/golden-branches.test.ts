/** torch's autograd in float64 on rollouts with branches: loss and gradient of each token, for both weights and every choice of branches. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { TrainingConfig } from '../../../src/schemas/training-config.ts';
import type { Credit, TrainingSequence } from '../../../src/trainer/credit.ts';
import { branchSequences } from '../../../src/trainer/credit/branch-sequences.ts';
import { creditBatch } from '../../../src/trainer/credit/credit-batch.ts';
import { evaluateTerms, termCounts } from '../../../src/trainer/loop/evaluate-terms.ts';
import { lossTerms } from '../../../src/trainer/losses/loss-terms.ts';
import { branched } from '../branched-trajectory.ts';
import { someConfig } from '../some-config.ts';

interface GoldenBranch {
  readonly new: readonly number[];
  readonly old: readonly number[];
  readonly reference: readonly number[];
  readonly entropy: readonly number[];
  readonly advantage: number;
}
interface GoldenCase {
  readonly method: string;
  readonly branch_weight: 'rollout' | 'token';
  readonly branches: 'all' | 'longest' | 'last';
  readonly loss: number;
  readonly gradient: readonly (readonly (readonly number[])[])[];
}
const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../../golden/branches/losses.json'), 'utf8')) as {
  readonly max_tokens: number;
  readonly sets: readonly { readonly rollouts: readonly (readonly GoldenBranch[])[]; readonly cases: readonly GoldenCase[] }[];
};

const CLIP = { objective: 'clip', clip_low: 0.2, clip_high: 0.2 };
const METHODS: Readonly<Record<string, Record<string, unknown>>> = {
  grpo: {
    loss: { ...CLIP, aggregation: 'sequence_mean' },
    kl: { coefficient: 0.04, estimator: 'k3', clamp: null, against: 'reference', placement: 'loss' },
    entropy_coefficient: 0.01,
  },
  dr_grpo: { loss: { ...CLIP, clip_high: 0.28, aggregation: 'constant', max_tokens: golden.max_tokens } },
  dapo: { loss: { ...CLIP, clip_high: 0.28, aggregation: 'token_mean' } },
  gspo: { loss: { ...CLIP, ratio: 'sequence', aggregation: 'sequence_mean' } },
  cispo: { loss: { objective: 'cispo', ratio_max: 1.2, aggregation: 'token_mean' } },
  rloo: { loss: { objective: 'importance_sampling', aggregation: 'sequence_mean_token_sum' } },
  tinker: { loss: { objective: 'importance_sampling', aggregation: 'sum' } },
  rpg: { loss: { use: 'rpg', args: { beta: 0.1, aggregation: 'sequence_mean', log_ratio_clamp: null } } },
  nll: { loss: { use: 'nll', args: { aggregation: 'sequence_mean' } } },
};

/** The column of a rollout's tokens, over its branches. */
type Column = 'new' | 'old' | 'reference' | 'entropy';
const columnOf = (branches: readonly GoldenBranch[], name: Column) => branches.flatMap((branch) => branch[name]);

async function sequencesOf(rollouts: readonly (readonly GoldenBranch[])[], config: TrainingConfig): Promise<TrainingSequence[]> {
  const credit: Credit = {
    assign: ({ groups }) => ({
      advantages: groups.map((members) =>
        members.map(({ trajectory }) =>
          Float64Array.from(rollouts[Number(trajectory.groupId)]!.flatMap((branch) => branch.new.map(() => branch.advantage))),
        ),
      ),
    }),
  };
  const trajectories = rollouts.map((branches, i) =>
    branched(
      `${i}/0`,
      branches.map(({ old }) => ({ sampled: old })),
    ),
  );
  const { groups } = await creditBatch(credit, trajectories, { config, step: 1, pass: async () => [] });
  return groups.flat().flatMap((sequence) => branchSequences(sequence, config.algorithm));
}

/** The numbers of a sequence's tokens among those of its rollout. */
function placesOf({ trajectory, targets, branchOf }: TrainingSequence): readonly number[] {
  const whole = branchOf?.trajectory ?? trajectory;
  const all = [...whole.targets];
  return [...targets].map((at) => all.indexOf(at + (branchOf?.start ?? 0)));
}

async function evaluated(rollouts: readonly (readonly GoldenBranch[])[], { method, branch_weight, branches }: GoldenCase) {
  const resolved = someConfig({ algorithm: METHODS[method] });
  const config = { ...resolved, algorithm: { ...resolved.algorithm, branchWeight: branch_weight, branches } };
  const terms = lossTerms(config, { algorithm: config.algorithm, responseTokens: 99 });
  const sequences = (await sequencesOf(rollouts, config)).map((sequence) => {
    const of = (name: Column) => {
      const column = columnOf(rollouts[Number(sequence.trajectory.groupId)]!, name);
      return Float64Array.from(placesOf(sequence), (place) => column[place]!);
    };
    return { sequence: { ...sequence, oldLogProbs: of('old'), referenceLogProbs: of('reference') }, logProbs: of('new'), entropy: of('entropy') };
  });
  const offsets = Int32Array.from(sequences.reduce((ends, { logProbs }) => [...ends, ends.at(-1)! + logProbs.length], [0]));
  const all = sequences.map(({ sequence }) => sequence);
  const joined = (name: 'logProbs' | 'entropy') => Float64Array.from(sequences.flatMap((each) => [...each[name]]));
  const counts = terms.map((term) => termCounts(term, all));
  const { values, gradient } = evaluateTerms(terms, counts, all, { offsets, logProbs: joined('logProbs'), entropy: joined('entropy') });
  const found = rollouts.map((own) => columnOf(own, 'new').map(() => 0));
  for (const [i, sequence] of all.entries())
    for (const [k, place] of placesOf(sequence).entries()) found[Number(sequence.trajectory.groupId)]![place] = gradient[offsets[i]! + k]!;
  return { loss: values.loss, gradient: found };
}

describe('branches in the losses', () => {
  const cases = golden.sets.flatMap(({ rollouts, cases: own }, set) => own.map((each) => ({ ...each, set, rollouts })));

  it.each(Object.keys(METHODS))('%s equals torch, for both weights and every choice of branches', async (method) => {
    const own = cases.filter((each) => each.method === method);
    expect(own.length).toBe(12);
    for (const { rollouts, branch_weight, branches, ...each } of own) {
      const { loss, gradient } = await evaluated(rollouts, { ...each, branch_weight, branches });
      const found = [loss, ...gradient.flat()];
      const expected = [each.loss, ...each.gradient.flat(2)];
      const far = found.filter((value, i) => !(Math.abs(value - expected[i]!) < 1e-9));
      expect({ branch_weight, branches, far, count: found.length }).toEqual({ branch_weight, branches, far: [], count: expected.length });
    }
  });

  it('are 108 cases of 9 methods, in which weights and choices differ', () => {
    expect(cases.length).toBe(108);
    const lossOf = (of: Partial<GoldenCase>) =>
      cases.find((each) => Object.entries(of).every(([key, value]) => each[key as keyof GoldenCase] === value))!.loss;
    const grpo = { method: 'grpo', branch_weight: 'rollout', branches: 'all' } as const;
    expect(lossOf(grpo)).not.toBeCloseTo(lossOf({ ...grpo, branch_weight: 'token' }), 3);
    expect(lossOf({ ...grpo, branches: 'longest' })).not.toBeCloseTo(lossOf({ ...grpo, branches: 'last' }), 3);
  });
});
