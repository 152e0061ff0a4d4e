/** What a teacher's log-probs make of a batch: advantages, references, and which tokens are trained. */
import { describe, expect, it } from 'vitest';
import { PolicyError, TrainingError } from '../../../src/core/errors.ts';
import { creditBatch } from '../../../src/trainer/credit/credit-batch.ts';
import { builtInCredit } from '../../../src/trainer/credit/registry.ts';
import { teacherScores } from '../../../src/trainer/credit/teacher-scores.ts';
import type { Teacher } from '../../../src/trainer/teacher.ts';
import type { TokenPart } from '../../../src/trainer/trajectory-branches.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { branched } from '../branched-trajectory.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';
import { advantagesOf, passOver, PLAIN, rollouts, spoken, TableBackend } from './credit-cases.ts';

const { signal } = new AbortController();
/** Any directory: nothing opens it here. */
const ADAPTER = { adapter: 'adapter' };

/** A teacher whose log-prob of a token depends on its id alone: from the table, else -1. It notes what it was asked. */
function tableTeacher(table: Readonly<Record<number, number>>, promptOf?: Teacher['promptOf']): Teacher & { readonly asked: TokenPart[] } {
  const asked: TokenPart[] = [];
  const score = async (sequences: readonly TokenPart[]) => {
    asked.push(...sequences);
    return sequences.map(({ ids, targets }) => Float64Array.from(targets, (at) => table[ids[at]!] ?? -1));
  };
  return { asked, scorer: { score }, ...(promptOf === undefined ? {} : { promptOf }) };
}

async function taught(given: readonly Trajectory[], teacher: Teacher, settings: object, rest: object = {}, pass = passOver()) {
  const config = someConfig({ algorithm: { advantage: PLAIN, teacher: { ...ADAPTER, ...settings }, ...rest } });
  const teach = (played: readonly Trajectory[]) => teacherScores(played, { teacher, algorithm: config.algorithm, step: 4, pass, signal });
  return creditBatch(builtInCredit(config), given, { config, step: 4, pass, teach });
}

const SPOKEN = [spoken('a/0', 1, [[7, -0.5], null, [8, -2]]), spoken('a/1', 0, [[7, -3]])];

describe('teacherScores', () => {
  it('makes the difference of log-probs the advantage of each sampled token, whatever the rewards', async () => {
    const batch = await taught(SPOKEN, tableTeacher({ 7: -1.5, 8: -0.25 }), {});
    expect(advantagesOf(batch)).toEqual({ 'a/0': [-1, 1.75], 'a/1': [1.5] });
    expect(batch.values).toMatchObject({ teacher_kl: (1 - 1.75 - 1.5) / 3, teacher_scored: 1, groups: 1 });
    expect(advantagesOf(await taught(SPOKEN, tableTeacher({ 7: -1.5, 8: -0.25 }), { coefficient: 2 }, { negate_advantages: true }))).toEqual({
      'a/0': [2, -3.5],
      'a/1': [-3],
    });
  });

  it('adds to what the reward gives if that counts too, also where the credit leaves a rollout out', async () => {
    const both = await taught(SPOKEN, tableTeacher({ 7: -1.5, 8: -0.25 }), { with_reward: true });
    expect(advantagesOf(both)).toEqual({ 'a/0': [0, 2.75], 'a/1': [0.5] });
    const equal = await taught(rollouts({ b: [1, 1] }), tableTeacher({}), { with_reward: true }, { constant_groups: 'drop' });
    expect(advantagesOf(equal)).toEqual({ 'b/0': [-0.9, -1 + 1 / 3], 'b/1': [-0.9, -1 + 1 / 3] });
  });

  it('leaves failed rollouts alone', async () => {
    const teacher = tableTeacher({});
    const batch = await taught(rollouts({ b: [null, 1] }), teacher, {});
    expect(Object.keys(advantagesOf(batch))).toEqual(['b/1']);
    expect(teacher.asked).toHaveLength(1);
  });

  it('trains no token that the teacher did not score, and counts it', async () => {
    const batch = await taught(SPOKEN, tableTeacher({ 7: NaN }), {});
    expect(batch.groups.flat().map(({ targets, advantages }) => [[...targets], [...advantages]])).toEqual([
      [[3], [1]],
      [[], []],
    ]);
    expect(batch.values).toMatchObject({ teacher_kl: -1, teacher_scored: 1 / 3 });
    await expect(taught(SPOKEN, tableTeacher({ 7: NaN, 8: NaN }), {})).rejects.toThrow(
      new TrainingError(
        'The teacher gave no log-prob of any token of step 4. Check algorithm.teacher: its window must hold the rollouts, and rows must have what algorithm.teacher.privileged names',
      ),
    );
  });

  it('stands in the place of the reference, in the loss', async () => {
    const kl = { kl: { coefficient: 0.1, estimator: 'k2' } };
    const batch = await taught(SPOKEN, tableTeacher({ 7: -1.5, 8: NaN }), { as: 'kl' }, kl);
    expect(advantagesOf(batch)).toEqual({ 'a/0': [0, 0], 'a/1': [0] });
    expect(batch.groups.flat().map(({ referenceLogProbs }) => [...referenceLogProbs!])).toEqual([[-1.5, NaN], [-1.5]]);
    const rewarded = await taught(SPOKEN, tableTeacher({}), { as: 'kl', with_reward: true }, kl);
    expect(advantagesOf(rewarded)).toEqual({ 'a/0': [1, 1], 'a/1': [-1] });
  });

  it('stands in its place in the reward, too', async () => {
    const kl = { kl: { coefficient: 1, estimator: 'k1', placement: 'reward', clamp: 'none' } };
    const batch = await taught(
      SPOKEN,
      tableTeacher({ 7: -1.5, 8: -0.25 }),
      { as: 'kl', with_reward: true },
      { ...kl, advantage: { ...PLAIN, std: 'none' } },
    );
    // Returns 1 - (1 - 1.75) and 0 - (-1.5), of which the mean is 1.625.
    expect(advantagesOf(batch)).toEqual({ 'a/0': [0.125, 0.125], 'a/1': [-0.125] });
    expect(batch.values['kl']).toBeCloseTo((1 - 1.75 - 1.5) / 3, 12);
  });

  it('puts the tokens of the student, id by id, behind the prompt of the teacher', async () => {
    const teacher = tableTeacher({ 7: -1.5 }, async ({ rolloutId }) => (rolloutId === 'a/0' ? Int32Array.of(40, 41, 42) : null));
    const batch = await taught(SPOKEN, teacher, {});
    expect(teacher.asked.map(({ ids, targets }) => [[...ids], [...targets]])).toEqual([
      [
        [40, 41, 42, 7, 99, 8],
        [3, 5],
      ],
    ]);
    expect(batch.values).toMatchObject({ teacher_scored: 2 / 3 });
    expect(batch.groups.flat().map(({ targets }) => targets.length)).toEqual([2, 0]);
  });

  it('scores each branch of a rollout by itself, and lets no advantage count in another branch', async () => {
    const whole = branched('b/0', [{ sampled: [-2, -3] }, { sampled: [-4], parent: 0 }]);
    const teacher = tableTeacher({});
    const { algorithm } = someConfig({ algorithm: { teacher: { ...ADAPTER, discount: 0.5 } } });
    const { logProbs, advantages } = await teacherScores([whole], { teacher, algorithm, step: 1, pass: passOver(), signal });
    expect(teacher.asked.map(({ ids, targets }) => [[...ids], [...targets]])).toEqual([
      [
        [1, 2, 3, 4, 5],
        [2, 3],
      ],
      [[6, 7, 8, 9], [2]],
    ]);
    expect([...logProbs.get(whole)!]).toEqual([-1, -1, -1]);
    expect([...advantages!.get(whole)!]).toEqual([1 + 0.5 * 2, 2, 3]);
  });

  it("asks the run's own policy if that is the teacher, and takes the trainer's log-probs where those are the old ones", async () => {
    const backend = new TableBackend({ on: { 7: -4, 8: -4 }, initial: { 7: -1, 8: -3 } });
    const own = { kind: 'start', adapter: null, privileged: 'x' };
    const pass = passOver(backend);
    expect(advantagesOf(await taught(SPOKEN, { scorer: 'initial' }, own, {}, pass))).toEqual({ 'a/0': [-0.5, -1], 'a/1': [2] });
    expect(advantagesOf(await taught(SPOKEN, { scorer: 'initial' }, own, { old_log_probs: 'trainer' }, pass))).toEqual({
      'a/0': [3, 1],
      'a/1': [3],
    });
  });

  it('stops the run if the teacher does not answer, or answers too little', async () => {
    const failing: Teacher = { scorer: { score: () => Promise.reject(new PolicyError('http://teacher refused')) } };
    await expect(taught(SPOKEN, failing, {})).rejects.toThrow(
      new TrainingError('The teacher did not score the step: http://teacher refused. Correct this, then continue with -R'),
    );
    const short: Teacher = { scorer: { score: async (sequences) => sequences.map(() => Float64Array.of(-1)) } };
    await expect(taught(SPOKEN, short, {})).rejects.toThrow(new TrainingError('The teacher gave 1 log-probs of 2 tokens of a/0'));
  });

  it('asks nothing for a step in which the policy wrote nothing', async () => {
    const teacher = tableTeacher({});
    const silent = trajectory('c/0', { targets: new Int32Array(0), logProbs: new Float64Array(0) });
    expect((await taught([silent], teacher, {})).values).toMatchObject({ teacher_kl: null, teacher_scored: null });
    expect(teacher.asked).toEqual([]);
  });
});
