import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { scriptedModel } from '../../src/core/builtin-judges.ts';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { JudgeRubric } from '../../src/core/judge-rubric.ts';
import { openRoleModels } from '../../src/models/role-models.ts';
import type { WireAskedLine } from '../../src/schemas/asked-line.ts';
import { sumsEnvironment, sumsOptions } from './sums-world.ts';

let directory: string;
beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'vf-asked-')), 'run');
});
afterEach(() => rm(join(directory, '..'), { recursive: true }));

const lines = async (): Promise<WireAskedLine[]> =>
  (await readFile(join(directory, 'asked.jsonl'), 'utf8'))
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as WireAskedLine);
const idsOf = (asked: readonly WireAskedLine[]) => asked.map(({ rollout_id: id }) => id).toSorted();

/** A judged run over `rows` rows, one rollout each; the judge fails for questions that `isDown` names. */
async function judged(
  rows: number,
  { resume = false, isDown = (_question: string): boolean => false, secrets = [] as string[], judge = 'judge-1' } = {},
) {
  let calls = 0;
  const model = scriptedModel({
    name: judge,
    replies: (messages) => {
      calls += 1;
      if (isDown(messages[1]!.content as string)) throw new Error('The judge is down.');
      return '{"reason": "it is so, says sk-secret-77", "score": 1}';
    },
  });
  await using models = await openRoleModels({ judge: { model } });
  const environment = Object.assign(sumsEnvironment({ rows }), { rubric: new JudgeRubric() });
  const options = sumsOptions(directory, { environment, models, numExamples: rows, rolloutsPerExample: 1, resume, secrets });
  const { summary } = await recordEvaluation({ ...options, run: { ...options.run, roles: { judge } } });
  return { summary, calls };
}

describe('asked.jsonl', () => {
  it('has a line for each rollout that asked, without secrets; the summary adds them up', async () => {
    const { summary } = await judged(3, { secrets: ['sk-secret-77'] });
    const asked = await lines();
    expect(idsOf(asked)).toEqual(['0/0', '1/0', '2/0']);
    expect(asked[0]!.asked[0]!.text).toBe('{"reason": "it is so, says ***", "score": 1}');
    expect(summary.roles).toEqual({ judge: expect.objectContaining({ models: ['judge-1'], calls: 3, failures: 0 }) });
  });

  it('a resume asks only for what is missing, drops what has no result, and keeps the figures of the whole run', async () => {
    const first = await judged(3, { isDown: (question) => question.includes('1 + 1') });
    expect(first.summary.rollouts).toMatchObject({ finished: 2, errored: 1 });
    expect(first.summary.roles!['judge']).toMatchObject({ calls: 2, failures: 1 });
    // A process that died between what a rollout asked and its result, and in the middle of a line.
    const [line] = await lines();
    await appendFile(join(directory, 'asked.jsonl'), `${JSON.stringify({ ...line, rollout_id: '3/0' })}\n{"schema_version":1,"roll`);
    const second = await judged(4, { resume: true });
    expect(second.calls).toBe(2);
    expect(idsOf(await lines())).toEqual(['0/0', '1/0', '2/0', '3/0']);
    expect(second.summary.roles!['judge']).toMatchObject({ calls: 4, failures: 0 });
    const third = await judged(4, { resume: true });
    expect([third.calls, third.summary.roles!['judge']!.calls]).toEqual([0, 4]);
  });

  it('a run is not resumed with another judge', async () => {
    await judged(2);
    await expect(judged(3, { resume: true, judge: 'judge-2' })).rejects.toThrow('roles.judge was "judge-1" and is "judge-2" now');
  });

  it('a run without roles has none', async () => {
    const { summary } = await recordEvaluation(sumsOptions(directory, { numExamples: 1 }));
    expect(summary).not.toHaveProperty('roles');
    await expect(lines()).rejects.toThrow(/ENOENT/);
  });
});
