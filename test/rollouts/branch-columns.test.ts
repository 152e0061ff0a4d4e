import { describe, expect, it } from 'vitest';
import type { Message } from '../../src/core/message.ts';
import { branchColumns, savedBranches } from '../../src/rollouts/branch-columns.ts';
import { completionMessages, wireMessage } from '../../src/rollouts/message-columns.ts';
import type { WireResult } from '../../src/schemas/results.ts';
import { Asks, branchedRollout, rolloutOf } from './branched-rollout.ts';

describe('branchColumns', () => {
  it('has no column for a rollout of one branch', async () => {
    const one = await branchedRollout({ forks: false });
    expect(branchColumns(one)).toBeNull();
    expect(branchColumns({ ...one, branches: [{ ...one.branches[0]!, reward: -0 }] })).toMatchObject([{ parent: null, reward: 0 }]);
  });

  it.each(['tokens', 'chat'] as const)('says of each branch what it left, where and why, with counts that sum to the whole: %s', async (kind) => {
    const rollout = await branchedRollout({ kind });
    const columns = branchColumns(rollout)!;
    expect(columns.map(({ parent, fork }) => [parent, fork?.kind ?? null, fork?.at ?? null])).toEqual([
      [null, null, null],
      [0, 'history', 3],
      [1, 'sample', 7],
      [null, 'retry', 2],
      [null, 'system', 0],
      [null, 'side', 0],
    ]);
    expect(columns[1]!.fork!.difference).toContain('"Summary: Lima."');
    const sum = (of: 'segments' | 'generations') => columns.reduce((total, column) => total + column[of], 0);
    expect([sum('segments'), sum('generations')]).toEqual([rollout.segments.length, rollout.generations.length]);
    expect(columns.map(({ tokens }) => tokens)).toEqual(rollout.branches.map(({ tokens }) => tokens?.length ?? null));
    expect(columns.map(({ tools }) => tools?.length)).toEqual([undefined, undefined, undefined, undefined, undefined, 0]);
  });

  it('writes of a prompt only what no earlier branch says, however long the conversations are', async () => {
    const asks = await Asks.open('tokens');
    const told: Message[] = [{ role: 'user', content: 'Begin.' }];
    for (let turn = 0; turn < 40; turn++) {
      const [said] = await asks.ask([...told, { role: 'user', content: `Side question ${turn}.` }], `Aside ${turn}.<|im_end|>`);
      expect(said!.content).toContain('Aside');
      const [next] = await asks.ask(told, `Turn ${turn}.<|im_end|>`);
      told.push(next!, { role: 'user', content: `Go on ${turn}.` });
    }
    const columns = branchColumns(rolloutOf(asks))!;
    expect(columns.length).toBeGreaterThan(30);
    expect(columns.slice(1).reduce((sum, { prompt }) => sum + prompt!.length, 0)).toBeLessThan(3 * columns.length);
  });
});

describe('savedBranches', () => {
  it.each(['tokens', 'chat'] as const)('gives back every message of every branch: %s', async (kind) => {
    const { prompt, tools, turnFormat, branches, segments } = await branchedRollout({ kind });
    const result = {
      prompt: prompt.map(wireMessage),
      tools,
      turn_format: turnFormat,
      branches: branchColumns({ branches, segments, turnFormat, tools })!,
    };
    const told = (saved: typeof branches) =>
      saved.map(({ parent, fork, prompt: own, segments: parts, tools: offered }) => ({
        parent,
        fork,
        prompt: own.map(wireMessage),
        completion: completionMessages({ segments: parts, turnFormat, branches: [] }),
        tools: offered,
      }));
    expect(told(savedBranches(result as unknown as WireResult, segments))).toEqual(told(branches));
  });

  it.each([true, false])('gives back what was said where an agent gives texts of its own to be scored {forks: %s}', async (forks) => {
    const played = await branchedRollout({ forks });
    const rollout = { ...played, segments: [{ kind: 'model' as const, text: 'Lima' }] };
    const branches = branchColumns(rollout)!;
    expect(branches.map(({ segments }) => segments)).toEqual(played.branches.map(() => 0));
    const result = { prompt: played.prompt.map(wireMessage), branches } as unknown as WireResult;
    const saved = savedBranches(result, rollout.segments);
    expect(saved.map(({ segments }) => segments.map(({ text }) => text))).toEqual(
      played.branches.map(({ segments }) => segments.map(({ text }) => text)),
    );
    expect(saved.map(({ prompt }) => prompt)).toEqual(played.branches.map(({ prompt }) => prompt));
  });

  it('keeps a role and a reward of a branch, and which one ends last', async () => {
    const rollout = await branchedRollout();
    const branches = rollout.branches.map((branch, i) => (i === 4 ? { ...branch, role: 'checker', reward: 0.5, endsLast: true as const } : branch));
    const columns = branchColumns({ ...rollout, branches })!;
    expect(columns[4]).toMatchObject({ role: 'checker', reward: 0.5, ends_last: true });
    const result = { prompt: [], branches: columns } as unknown as WireResult;
    expect(savedBranches(result, rollout.segments)[4]).toMatchObject({ role: 'checker', reward: 0.5, endsLast: true });
  });
});
