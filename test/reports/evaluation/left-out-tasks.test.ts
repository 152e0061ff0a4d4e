import { describe, expect, it } from 'vitest';
import { leftOutTasks } from '../../../src/reports/evaluation/left-out-tasks.ts';
import { Dataset } from '../../../src/core/dataset.ts';

const dataset = (tasks: readonly (string | undefined)[]) =>
  new Dataset(
    'rows',
    tasks.map((task, i) => ({ exampleId: i, prompt: [], ...(task === undefined ? {} : { task }) })),
  );
const mixed = dataset([...Array.from({ length: 6 }, () => 'search'), 'notes', 'notes', 'sums']);

describe('leftOutTasks', () => {
  it('names the tasks that the first rows do not reach, and the number of rows that reaches all', () => {
    expect(leftOutTasks({ rows: mixed, count: 6, shuffleSeed: null })).toBe(
      'The first 6 of 9 rows contain none of notes, sums (2 of 3 tasks), so the summary does not cover them: add --shuffle to mix the tasks, or play at least -n 9',
    );
    expect(leftOutTasks({ rows: mixed, count: 7, shuffleSeed: null })).toContain('none of sums (1 of 3 tasks)');
  });

  it('says nothing where every task is played or rows have none', () => {
    expect(leftOutTasks({ rows: mixed, count: 9, shuffleSeed: null })).toBeNull();
    expect(leftOutTasks({ rows: dataset(['a', 'b', 'a', 'b']), count: 2, shuffleSeed: null })).toBeNull();
    expect(leftOutTasks({ rows: dataset([undefined, undefined]), count: 1, shuffleSeed: null })).toBeNull();
  });

  it('looks at the rows in the order of a shuffle, and does not advise one', () => {
    const text = leftOutTasks({ rows: mixed, count: 1, shuffleSeed: 3 });
    expect(text).toMatch(/ \(2 of 3 tasks\), so the summary does not cover them: play at least -n \d$/);
  });
});
