import { describe, expect, it } from 'vitest';
import { bucketStage, focusStage } from '../../src/rounds/curate-stages.ts';
import { OwnTrace, type OwnLine, type TraceCounts } from '../../src/rounds/own-trace.ts';
import type { RoundRow } from '../../src/rounds/row-files.ts';
import { rolloutLines } from './trace-lines.ts';

/** Of a run that played these prompts, with a reward of 0 each. */
function tracesOf(prompts: readonly string[]) {
  const counts: TraceCounts = { rollouts: 0, failed: 0, repeated: 0, incomplete: 0, evaluations: 0, torn: 0 };
  const trace = new OwnTrace(counts, false);
  for (const prompt of prompts) for (const line of rolloutLines({ prompt, index: 0, reward: 0 })) trace.add(JSON.parse(line) as OwnLine);
  return { rollouts: trace.rollouts(), counts };
}

const rowsOf = (ids: readonly string[]): RoundRow[] =>
  ids.map((id) => ({ id, fields: { id }, line: JSON.stringify({ id }), place: `rows.jsonl:${id}` }));
const list = (ids: readonly string[], kept = 0) => ({ reasons: new Map(ids.map((id) => [id, 'wrong'])), listed: ids.length + kept });

describe('focusStage', () => {
  const traces = tracesOf(['a', 'b', 'learned', 'excluded']);

  it('counts the prompts of the trace that no row has, the rows that were not played, and all rows of the lists', () => {
    const { counts, rule, outputs } = focusStage(traces, rowsOf(['a', 'unplayed', 'b']), {
      added: rowsOf(['more']),
      exclusions: list(['b', 'more'], 3),
      output: 'x.jsonl',
    });
    expect(counts).toMatchObject({ rows: 3, hard: 2, added: 1, listed: 5, excluded: 2, kept: 1, unknown: 2, untraced: 1, unknown_listed: 0 });
    expect(rule).toEqual({ measure: 'reward', threshold: 0.2 });
    expect(outputs[0]!.lines).toEqual(['{"id":"a"}']);
  });

  it('refuses a list with a row that is in neither file, and counts it where it may', () => {
    const options = { added: rowsOf(['more']), exclusions: list(['b', 'more', 'typo']), output: 'x.jsonl' };
    expect(() => focusStage(traces, rowsOf(['a', 'b']), options)).toThrow(
      'A review list leaves out the prompt "typo", which the rows do not have; give the rows that the list is about, or --leave-out-unknown',
    );
    const { counts, rule } = focusStage(traces, rowsOf(['a', 'b']), { ...options, leavesOutUnknown: true });
    expect(counts).toMatchObject({ listed: 3, unknown_listed: 1, kept: 1 });
    expect(rule).toMatchObject({ unknown_listed: 'counted' });
  });

  it('refuses the trace of a run that played none of the rows', () => {
    expect(() => focusStage(traces, rowsOf(['c', 'd']), { output: 'x.jsonl' })).toThrow(
      'The trace has none of the prompts of the rows; give the trace of a run that played them, or --leave-out-unknown',
    );
    expect(focusStage(traces, rowsOf(['c', 'd']), { leavesOutUnknown: true, output: 'x.jsonl' }).counts).toMatchObject({ untraced: 2, kept: 0 });
    expect(focusStage(traces, [], { added: rowsOf(['c']), output: 'x.jsonl' }).counts).toMatchObject({ kept: 1 });
  });
});

describe('bucketStage', () => {
  it('names its rule for prompts that the rows do not have', () => {
    const traces = tracesOf(['a', 'b']);
    expect(bucketStage(traces, rowsOf(['a', 'b'])).rule).toMatchObject({ unknown_prompts: 'refused' });
    expect(bucketStage(traces, rowsOf(['a']), { leavesOutUnknown: true })).toMatchObject({
      rule: { unknown_prompts: 'counted' },
      counts: { unknown: 1 },
    });
  });
});
