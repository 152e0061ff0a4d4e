import type { Trajectory } from 'vf-search/trainer';
import { describe, expect, it } from 'vitest';
import { criticRows, payCriticised, retryRows, type Solution, solutionOf } from '../../../environments/self-play-code/critics.ts';
import { DEFAULT_SETTINGS } from '../../../environments/self-play-code/settings.ts';
import { trajectory } from '../../trainer/some-trajectories.ts';

const MINI = { ...DEFAULT_SETTINGS, prompt: 'mini' } as const;
const OPTIONS = { settings: DEFAULT_SETTINGS, alphas: { solve: 0.3, critique: 0.1 }, lengthReward: { maxLength: 2048, penaltyThreshold: 4096 } };
const FAILURE: Trajectory['error'] = { type: 'TimeoutError', message: 'late' } as NonNullable<Trajectory['error']>;

/** A reply of 100 characters, half of them the thought, in 200 tokens. */
const HALF = `<think>${'t'.repeat(50)}</think><answer>${'4'.repeat(18)}</answer>`;

function wrote(rolloutId: string, text: string, changes: Partial<Trajectory> = {}): Trajectory {
  return trajectory(rolloutId, { segments: [{ kind: 'model', text }], targets: new Int32Array(200), ...changes });
}

function solution(
  changes: { readonly text?: string; readonly accuracy?: number; readonly format?: number; readonly error?: Trajectory['error'] } = {},
): Solution {
  const { text = HALF, accuracy = 1, format = 1, error = null } = changes;
  return solutionOf(wrote('solve-a/0', text, { metrics: { accuracy, format }, error }), 'code_o', MINI);
}

/** Replies of the critics of one solution, a second reply where the first has no grade. */
function pay(of: Solution, replies: readonly string[], seconds: readonly string[] = []) {
  const rows = criticRows([of], MINI);
  const first = rows.flatMap(({ exampleId }) => replies.map((text, i) => wrote(`${exampleId}/${i}`, text)));
  const again = retryRows(rows, first, MINI);
  const retried = again.map(({ exampleId }, i) => wrote(`${exampleId}/0`, seconds[i]!));
  return { ...payCriticised([of], [first, retried], OPTIONS), asked: again.length };
}

const graded = (...grades: readonly number[]) => grades.map((grade) => JSON.stringify({ rationale: 'r', grade }));
const rewardsOf = (all: readonly Trajectory[]) => all.map(({ reward }) => reward);

describe('criticRows', () => {
  it('asks about the thought of each well-formed solution, and about no other', () => {
    expect(criticRows([solution({ accuracy: 0 })], MINI)).toMatchObject([
      { exampleId: 'critic-solve-a-0', task: 'code_o', info: { role: 'critique', thought: 't'.repeat(50), isRight: false } },
    ]);
    const empty = '<think> </think><answer>4</answer>';
    expect(criticRows([solution({ format: 0 }), solution({ text: empty }), solution({ text: 'no tags' })], MINI)).toEqual([]);
  });
});

describe('retryRows', () => {
  it('asks again, once, where a reply has no grade, and not where a rollout failed', () => {
    const rows = criticRows([solution()], MINI);
    const replies = ['fine', ...graded(0.5), '{"grade": 2}'].map((text, i) => wrote(`critic-solve-a-0/${i}`, text));
    const failed = wrote('critic-solve-a-0/3', '', { error: FAILURE });
    const again = retryRows(rows, [...replies, failed], MINI);
    expect(again.map(({ exampleId }) => exampleId)).toEqual(['retry-critic-solve-a-0-0', 'retry-critic-solve-a-0-2']);
    expect(again.map(({ prompt }) => prompt)).toEqual([rows[0]!.prompt, rows[0]!.prompt]);
  });
});

describe('payCriticised', () => {
  it('pays a solution by its correctness and the length of its thought', () => {
    // 100 tokens of thought: ln 100 / ln 2048 = 0.604; 0.3 * 1 + 0.7 * 0.604.
    const [paid] = pay(solution(), []).solutions;
    expect(paid).toMatchObject({ reward: expect.closeTo(0.7228, 4) as number, metrics: { length_reward: expect.closeTo(0.604, 4) as number } });
    expect(rewardsOf(pay(solution({ accuracy: 0 }), []).solutions)).toEqual([expect.closeTo(0.4228, 4)]);
  });

  it('pays a blank thought nothing for its length, and measures a reply without tags as a whole', () => {
    const blank = solution({ text: `<think> </think><answer>${'4'.repeat(90)}</answer>` });
    expect(rewardsOf(pay(blank, []).solutions)).toEqual([0.3]);
    // 200 tokens: 0.3 + 0.7 * ln 200 / ln 2048.
    expect(rewardsOf(pay(solution({ text: '4' }), []).solutions)).toEqual([expect.closeTo(0.7864, 4)]);
  });

  it('pays a wrong format -1, however long its thought is', () => {
    expect(rewardsOf(pay(solution({ format: 0 }), []).solutions)).toEqual([-1]);
  });

  it('leaves a solution that failed without a reward', () => {
    const failed = solution({ error: FAILURE });
    expect(payCriticised([failed], [[], []], OPTIONS).solutions).toEqual([failed.trajectory]);
  });

  it('pays a critic the median grade of the others and its agreement with the executor', () => {
    // 0.1 * agreement + 0.9 * creativity, where creativity is 0.3, 0.65 and 0.55.
    const { critiques, values } = pay(solution(), graded(0.9, 0.2, 0.4));
    expect(rewardsOf(critiques)).toEqual([0.37, 0.585, 0.495].map((reward) => expect.closeTo(reward, 12) as number));
    expect(critiques[0]!.metrics).toMatchObject({ grade: 0.9, agreement: 1, creativity: expect.closeTo(0.3, 12) as number });
    expect(values).toEqual({
      'source/critiques': 3,
      'source/critiques_malformed': 0,
      'source/grade': expect.closeTo(0.5, 12) as number,
      'source/agreement': 1 / 3,
      'source/alpha_solve': 0.3,
      'source/alpha_critique': 0.1,
    });
  });

  it('pays a critic its own grade where creativity is its own, as in the specification, and reads scores where they are asked for', () => {
    const settings = { ...DEFAULT_SETTINGS, creativity: 'self', grading: 'scores', dimensions: ['depth'] } as const;
    const rows = criticRows([solution()], MINI);
    const first = ['{"depth": 0.5, "overall_grade": 0.7}', '{"overall_grade": 0.7}'].map((text, i) => wrote(`critic-solve-a-0/${i}`, text));
    const retried = retryRows(rows, first, { ...MINI, ...settings });
    expect(retried.map(({ exampleId }) => exampleId)).toEqual(['retry-critic-solve-a-0-1']);
    const { critiques, values } = payCriticised([solution()], [first, []], { ...OPTIONS, settings });
    // 0.1 for agreement, 0.9 for creativity.
    expect(critiques).toMatchObject([{ reward: expect.closeTo(0.73, 12) as number, metrics: { creativity: 0.7 } }]);
    expect(values).toMatchObject({ 'source/critiques_malformed': 1 });
  });

  it('pays a critic without others its agreement alone', () => {
    const [alone] = pay(solution(), graded(0.7)).critiques;
    expect(alone).toMatchObject({ reward: 1, metrics: { grade: 0.7, agreement: 1 } });
    expect(alone!.metrics).not.toHaveProperty('creativity');
    expect(rewardsOf(pay(solution({ accuracy: 0 }), graded(0.7)).critiques)).toEqual([0]);
  });

  it('takes the second reply where the first has no grade', () => {
    const { critiques, asked } = pay(solution(), ['fine', ...graded(0.6)], graded(0.8));
    expect(asked).toBe(1);
    expect(critiques.map(({ rolloutId, metrics }) => [rolloutId, metrics['grade'], metrics['creativity']])).toEqual([
      ['retry-critic-solve-a-0-0/0', 0.8, 0.6],
      ['critic-solve-a-0/1', 0.6, 0.8],
    ]);
  });

  it('counts a critique without a grade after two replies, and pays it nothing', () => {
    const { critiques, values } = pay(solution(), ['fine', ...graded(0.6)], ['still fine']);
    expect(critiques.map(({ rolloutId }) => rolloutId)).toEqual(['critic-solve-a-0/1']);
    expect(values).toMatchObject({ 'source/critiques': 1, 'source/critiques_malformed': 1 });
  });

  it('counts no critique whose rollout failed', () => {
    const failed = wrote('critic-solve-a-0/0', '', { error: FAILURE });
    const { critiques, values } = payCriticised([solution()], [[failed], []], OPTIONS);
    expect(critiques).toEqual([]);
    expect(values).toMatchObject({ 'source/critiques_malformed': 0, 'source/grade': null, 'source/agreement': null });
  });
});
