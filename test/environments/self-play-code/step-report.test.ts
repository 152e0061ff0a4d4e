import { describe, expect, it } from 'vitest';
import type { Solution } from '../../../environments/self-play-code/critics.ts';
import type { ProbedProposal, Proposal, ProposalResult } from '../../../environments/self-play-code/proposals.ts';
import type { FunctionRecord, IoRecord } from '../../../environments/self-play-code/records.ts';
import { exampleNotes, programRecords, proposalValues } from '../../../environments/self-play-code/step-report.ts';
import { trajectory } from '../../trainer/some-trajectories.ts';

const ONE: IoRecord = { kind: 'code_o', snippet: 'def f(a):a=a+1;return a', input: '1', output: '2', imports: [] };
const TWO: IoRecord = { ...ONE, kind: 'code_i', snippet: 'def f(a):a=a+1;a=a*2;return a', output: '4' };
const FUNCTION: FunctionRecord = { kind: 'code_f', snippet: ONE.snippet, inputs: ['1', '2'], outputs: ['2', '3'], message: 'plus', imports: [] };

const proposal = (id: string, result: ProposalResult): Proposal => ({ id, kind: 'code_o', trajectory: trajectory(`${id}/0`), result });
const probed = (id: string, record: IoRecord | FunctionRecord, accuracies: readonly number[], isRepeated = false): ProbedProposal => ({
  ...proposal(id, { kind: 'valid', record }),
  result: { kind: 'valid', record },
  accuracies,
  isRepeated,
});
const probe = (accuracy: number, isWellFormed = true, hasFailed = false): Solution => ({
  trajectory: trajectory('solve/0', hasFailed ? { error: { type: 'TimeoutError' } as NonNullable<Proposal['trajectory']>['error'] } : {}),
  kind: 'code_o',
  accuracy,
  isWellFormed,
  thought: null,
});

describe('proposalValues', () => {
  it('has no mean where there was nothing to average', () => {
    expect(proposalValues([], [], [])).toEqual({
      'source/valid': null,
      'source/statements': null,
      'source/learnability': null,
      'source/own_accuracy': null,
      'source/distinct': null,
      'source/repeated': null,
      'source/own_format': null,
      'source/proposals': 0,
      'source/held_out': 0,
      'source/unprobed': 0,
    });
  });

  it('counts proposals by what became of them', () => {
    const valid = [probed('a', ONE, [0, 1, 1, 1]), probed('b', TWO, [1, 1], true), probed('c', ONE, []), probed('d', TWO, [0, 0, 0, 1])];
    const others: Proposal[] = [
      proposal('e', { kind: 'invalid', reason: 'syntax' }),
      proposal('f', { kind: 'invalid', reason: 'syntax' }),
      proposal('g', { kind: 'invalid', reason: 'banned' }),
      proposal('h', { kind: 'held_out' }),
      proposal('i', { kind: 'failed' }),
    ];
    expect(proposalValues([...valid, ...others], valid, [probe(1), probe(0, false), probe(1), probe(1), probe(0, true, true)])).toEqual({
      'source/proposals': 8,
      'source/valid': 0.5,
      'source/invalid/syntax': 2,
      'source/invalid/banned': 1,
      'source/held_out': 1,
      'source/unprobed': 1,
      'source/statements': 1.5,
      'source/distinct': 0.5,
      'source/repeated': 0.25,
      // (1 - 0.75, 0 because it is always solved, 1 - 0.25) of those that were probed.
      'source/learnability': 1 / 3,
      'source/own_accuracy': 0.75,
      'source/own_format': 0.75,
    });
  });
});

describe('exampleNotes', () => {
  const valid = [probed('a', ONE, [1, 1]), probed('b', TWO, [0, 1]), probed('c', ONE, [])];

  it('shows the program that is best worth learning in the first step, in the middle and in the last', () => {
    const shown = Array.from({ length: 60 }, (_, i) => i + 1).filter((step) => exampleNotes(step, valid, 60).length > 0);
    expect(shown).toEqual([1, 31, 60]);
    expect(exampleNotes(31, valid, 60)).toEqual(['Step 31 proposes: def f(a):a=a+1;a=a*2;return a  f(1) = 4  (code_i, solved by 50 %)']);
  });

  it('shows a short run each of its steps once, and nothing without a valid program', () => {
    expect([1, 2].map((step) => exampleNotes(step, valid, 2).length)).toEqual([1, 1]);
    expect(exampleNotes(1, [], 60)).toEqual([]);
  });

  it('keeps every program on one line of bounded length', () => {
    const lines = { ...ONE, snippet: 'def f(a):\n    b = a\n\n    return b' };
    expect(exampleNotes(1, [probed('a', lines, [])], 9)).toEqual(['Step 1 proposes: def f(a): ⏎ b = a ⏎ return b  f(1) = 2  (code_o)']);
    const [long] = exampleNotes(1, [probed('a', { ...ONE, snippet: 'x\n'.repeat(5000), output: '9'.repeat(5000) }, [])], 9);
    expect(long!.length).toBeLessThan(500);
    expect(long).not.toContain('\n');
  });

  it('shows the first call of a function that is described by several', () => {
    expect(exampleNotes(1, [probed('a', FUNCTION, [0])], 1)).toEqual(['Step 1 proposes: def f(a):a=a+1;return a  f(1) = 2  (code_f, solved by 0 %)']);
  });
});

describe('programRecords', () => {
  it('writes each accepted program as a row that the environment reads', () => {
    expect(programRecords([probed('a', ONE, [0, 1]), probed('b', FUNCTION, [], true)])).toEqual([
      { id: 'a', kind: 'code_o', code: ONE.snippet, input: '1', output: '2', accuracy: 0.5, repeated: false },
      { id: 'b', kind: 'code_f', code: ONE.snippet, inputs: ['1', '2'], outputs: ['2', '3'], message: 'plus', accuracy: null, repeated: true },
    ]);
  });
});
