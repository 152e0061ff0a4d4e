import type { RewardContext, Score } from 'vf-search';
import { describe, expect, it } from 'vitest';
import type { TaskRecord } from '../../../environments/self-play-code/records.ts';
import { type SelfPlayJudges, selfPlayRubric } from '../../../environments/self-play-code/rubric.ts';
import { DEFAULT_SETTINGS } from '../../../environments/self-play-code/settings.ts';
import { critiqueRow, proposeRow, solveRow, type TaskRow } from '../../../environments/self-play-code/task-rows.ts';

const TWO_STATEMENTS: TaskRecord = { kind: 'code_o', snippet: 'def f(a):a=a+1;a=a*2;return a', input: '1', output: '4', imports: [] };
const FUNCTION: TaskRecord = { kind: 'code_f', snippet: 'def f(a):return a', inputs: ['1', '2'], outputs: ['1', '2'], message: '', imports: [] };

/** An answer is right if it says 4, and half right if it says 2; a proposal is valid if it says so. */
async function score(row: TaskRow, reply: string, judges: Partial<SelfPlayJudges> = {}): Promise<Score> {
  const rubric = selfPlayRubric({
    ...DEFAULT_SETTINGS,
    rewards: 'azr',
    examine: async (text) => (text.includes('valid') ? { kind: 'valid', record: TWO_STATEMENTS } : { kind: 'invalid', reason: 'no_code' }),
    check: async (_, answer) => (answer.includes('4') ? 1 : answer.includes('2') ? 0.5 : 0),
    ...judges,
  });
  return rubric.score({ row, modelText: reply, signal: new AbortController().signal } as RewardContext<TaskRow>);
}

const solved = (record: TaskRecord) => solveRow('s', record, DEFAULT_SETTINGS);
const reply = (answer: string) => `<think>so</think><answer>${answer}</answer>`;
const critic = critiqueRow('c', { kind: 'code_o', thought: 'so', isRight: true }, DEFAULT_SETTINGS);
const proposer = proposeRow('p', { kind: 'code_o', program: null, references: [] }, DEFAULT_SETTINGS);

describe('selfPlayRubric', () => {
  it('pays a solution by Absolute Zero: its correctness, -0.5 if it is wrong, -1 in a wrong format', async () => {
    expect(await score(solved(TWO_STATEMENTS), reply('4'))).toMatchObject({ reward: 1, metrics: { accuracy: 1, format: 1 } });
    expect(await score(solved(TWO_STATEMENTS), reply('2'))).toMatchObject({ reward: 0.5, metrics: { accuracy: 0.5, format: 1 } });
    expect(await score(solved(TWO_STATEMENTS), reply('3'))).toMatchObject({ reward: -0.5, metrics: { accuracy: 0, format: 1 } });
    expect(await score(solved(TWO_STATEMENTS), '<answer>4</answer>')).toMatchObject({ reward: -1, metrics: { accuracy: 0, format: 0 } });
  });

  it('takes an answer without a program for a wrong format where a program is asked for', async () => {
    expect(await score(solved(FUNCTION), reply('4'))).toMatchObject({ reward: -1, metrics: { format: 0 } });
    expect(await score(solved(FUNCTION), reply('```python\ndef f(a):\n    return 4\n```'))).toMatchObject({ reward: 1, metrics: { format: 1 } });
  });

  it('checks no answer in a wrong format', async () => {
    const check = () => Promise.reject(new Error('checked'));
    expect(await score(solved(TWO_STATEMENTS), 'It is 4.', { check })).toMatchObject({ reward: -1 });
  });

  it('judges a rollout once, however many metrics need it', async () => {
    let count = 0;
    await score(solved(TWO_STATEMENTS), reply('4'), { check: async () => ++count });
    expect(count).toBe(1);
  });

  it('counts a solution under the length of its program alone', async () => {
    const lengths = ({ metrics }: Score) => Object.entries(metrics).filter(([name]) => name.startsWith('accuracy_'));
    expect(lengths(await score(solved(TWO_STATEMENTS), reply('4')))).toEqual([['accuracy_2_statements', 1]]);
    expect(lengths(await score(solved({ ...TWO_STATEMENTS, snippet: 'def f(a):return a' }), reply('3')))).toEqual([['accuracy_1_statement', 0]]);
    const long = { ...TWO_STATEMENTS, snippet: `def f(a):${'a=a+1;'.repeat(9)}return a` };
    expect(lengths(await score(solved(long), reply('4')))).toEqual([['accuracy_6_or_more_statements', 1]]);
    expect(lengths(await score(proposer, 'valid'))).toEqual([]);
    expect(lengths(await score(critic, '{"grade": 1}'))).toEqual([]);
  });

  it('gives each role the metrics of its own', async () => {
    const names = ({ metrics }: Score) => Object.keys(metrics).filter((name) => name !== 'paid');
    expect(names(await score(solved(TWO_STATEMENTS), reply('4')))).toEqual(['accuracy', 'format', 'accuracy_2_statements']);
    expect(names(await score(proposer, 'valid'))).toEqual(['valid']);
    expect(names(await score(critic, '{"grade": 0.25}'))).toEqual(['graded', 'grade']);
    expect(names(await score(critic, 'fine'))).toEqual(['graded']);
  });

  it('has the score of each dimension as a metric, where scores are asked for', async () => {
    const dimensions = ['depth', 'plain style'];
    const whole = '{"depth": 0.5, "plain style": 1, "overall_grade": 0.75, "rationale": "r"}';
    const scored = await score(critic, whole, { grading: 'scores', dimensions });
    expect(scored.metrics).toMatchObject({ graded: 1, grade: 0.75, grade_depth: 0.5, grade_plain_style: 1 });
    const plain = (await score(critic, '{"grade": 0.25}', { grading: 'document', dimensions })).metrics;
    expect([plain['grade'], plain['grade_depth'] ?? null]).toEqual([0.25, null]);
    expect((await score(critic, '{"grade": 0.25}', { grading: 'scores', dimensions })).metrics).toMatchObject({ graded: 0 });
  });

  it('pays for an evaluation what can be used: right answers, valid proposals, critiques with a grade', async () => {
    const plain = { rewards: 'accuracy' } as const;
    const rewards = [
      [solved(TWO_STATEMENTS), reply('2')],
      [solved(TWO_STATEMENTS), '4'],
      [proposer, 'valid'],
      [proposer, 'nothing'],
      [critic, '{"rationale": "r", "grade": 0}'],
      [critic, '{"grade": 7}'],
    ] as const;
    expect(await Promise.all(rewards.map(async ([row, text]) => (await score(row, text, plain)).reward))).toEqual([0.5, 0, 1, 0, 1, 0]);
  });

  it('reads replies in the short form where prompts are short', async () => {
    const mini = { prompt: 'mini' } as const;
    expect(await score(solved(TWO_STATEMENTS), `${reply('4')}\n`, mini)).toMatchObject({ metrics: { format: 0 } });
    expect(await score(solved(TWO_STATEMENTS), reply('4'), mini)).toMatchObject({ metrics: { format: 1 } });
  });
});
