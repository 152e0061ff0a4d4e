import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseTrajectory, thinLine, trajectoryRecord } from '../../../src/trainer/records/trajectory-record.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { sequencesOf } from '../../../src/trainer/trajectory-branches.ts';
import { anyBranchedTrajectory, anyTrajectory } from '../any-trajectory.ts';
import { branched } from '../branched-trajectory.ts';
import { bits, trajectory } from '../some-trajectories.ts';

const plain = (text: string) => text;
const line = (t: Trajectory) => JSON.stringify(trajectoryRecord(t, plain));
const parsed = (text: string) => {
  const read = parseTrajectory(text);
  if ('problem' in read) throw new Error(read.problem);
  return read.value;
};

describe('trajectoryRecord', () => {
  it('comes back as it was, to the bit {any trajectory}', () => {
    fc.assert(
      fc.property(anyTrajectory, (t) => {
        const text = line(t);
        expect(text).not.toMatch(/[\n\r]/);
        const back = parsed(text);
        expect(back).toEqual(t);
        expect(bits(back)).toEqual(bits(t));
      }),
      { numRuns: 300 },
    );
  });

  it('comes back with its branches {any branched trajectory}', () => {
    fc.assert(
      fc.property(anyBranchedTrajectory, (t) => {
        const back = parsed(line(t));
        expect(back).toEqual(t);
        expect(bits(back)).toEqual(bits(t));
        const sequences = sequencesOf(back);
        expect(sequences.flatMap(({ ids }) => [...ids])).toEqual([...t.ids]);
        expect(sequences.flatMap(({ logProbs }) => [...(logProbs ?? [])])).toEqual([...(t.logProbs ?? [])]);
      }),
      { numRuns: 200 },
    );
  });

  it('keeps the parents, roles and rewards of branches without their tokens', () => {
    const t = branched('1/0', [{ sampled: [-1] }, { sampled: [-1, -2], parent: 0, role: 'writer', reward: 2 }]);
    const thin = parsed(thinLine(line(t)));
    expect(thin.branches).toEqual([
      { start: 0, end: 0, promptLength: 0, parent: null },
      { start: 0, end: 0, promptLength: 0, parent: 0, role: 'writer', reward: 2 },
    ]);
    expect(thin.ids.length).toBe(0);
  });

  it.each([
    ['too few ids', { length: 4 }, 'the branches end at 9 of 10 ids'],
    ['a prompt that is longer than the branch', { prompt_length: 6 }, 'branches[1] has 5 ids and the promptLength 6'],
    ['a prompt that holds a target', { prompt_length: 3 }, 'branches[1] has the target 7 in its prompt, which ends at 8'],
    ['a later parent', { parent: 1 }, 'branches[1] must have the index of an earlier branch as its parent, or null, got 1'],
    ['no name', { role: '' }, 'role'],
    ['no list', null, 'branches'],
  ])('refuses branches with %s', (_, change, problem) => {
    const wire = JSON.parse(line(branched('1/0', [{ sampled: [-1, -1] }, { sampled: [-1, -1] }]))) as { branches: object[]; turn_tokens: number[] };
    const branches = change === null ? [] : wire.branches.with(1, { ...wire.branches[1], ...change });
    expect(() => parsed(JSON.stringify({ ...wire, branches }))).toThrow(problem);
  });

  it('refuses a turn in two branches', () => {
    const t = branched('1/0', [{ sampled: [-1, -1] }, { sampled: [-1, -1] }]);
    expect(() => parsed(line({ ...t, turnTokens: [1, 2, 1] }))).toThrow('the tokens of turn 1 lie in two branches');
    expect(parsed(line({ ...t, turnTokens: [0, 2, 0, 1, 1] })).turnTokens).toEqual([0, 2, 0, 1, 1]);
  });

  it('keeps log-probs that no short decimal can distinguish', () => {
    const logProbs = Float64Array.of(-0.1, -0.1 - 2 ** -56, -5e-324, -9999 - 2 ** -39, -0, Math.log(1 / 3));
    const targets = Int32Array.of(2, 3, 4, 5, 6, 7);
    const back = parsed(line(trajectory('1/0', { ids: new Int32Array(8), targets, logProbs })));
    expect([...back.logProbs!].every((value, i) => Object.is(value, logProbs[i]))).toBe(true);
  });

  it('keeps the rewards and lengths of turns, and refuses lengths that are not those of its targets', () => {
    const t = trajectory('1/0', { turnTokens: [0, 2], turnRewards: [null, -0.1] });
    expect(parsed(line(t))).toEqual(t);
    expect(() => parsed(line({ ...t, turnTokens: [1, 2] }))).toThrow('turn_tokens sum to 3, and 2 tokens were sampled');
  });

  it('reads arrays that are views into a larger buffer', () => {
    const t = trajectory('1/0', { ids: Int32Array.of(9, 9, 1, 2, 3, 4, 9).subarray(2, 6) });
    expect([...parsed(line(t)).ids]).toEqual([1, 2, 3, 4]);
  });

  it('contains no secret in texts or errors, and leaves ids as they are', () => {
    const redact = (text: string) => text.replaceAll('sk-1234', '***');
    const error = {
      type: 'RetrievalError',
      message: 'no answer from http://user:pw@host/?api_key=k with sk-1234',
      retryable: true,
      source: 'environment' as const,
      reason: 'malformed' as const,
    };
    const t = trajectory('sk-1234/0', { reward: null, error, segments: [{ kind: 'model', text: 'it is sk-1234' }] });
    const record = trajectoryRecord(t, redact);
    expect(record.segments).toEqual([{ kind: 'model', text: 'it is ***' }]);
    expect(record.error!.message).toBe('no answer from http://***@host/?api_key=*** with ***');
    expect(record.rollout_id).toBe('sk-1234/0');
    expect(record.error!.reason).toBe('malformed');
    expect(parsed(JSON.stringify(record)).error).toEqual({ ...error, message: record.error!.message });
  });
});

describe('parseTrajectory', () => {
  const record = trajectoryRecord(trajectory('1/0'), plain);
  const int32 = (...values: number[]) => Buffer.from(Int32Array.from(values).buffer).toString('base64');
  it.each([
    ['text that is not JSON', '{"rollout_id":', /not JSON/],
    ['a missing field', JSON.stringify({ ...record, group_id: undefined }), /group_id/],
    ['a wrong type', JSON.stringify({ ...record, reward: '1' }), /reward/],
    ['an array that is not base64', JSON.stringify({ ...record, ids: 'AQ*AAAIAAAA=' }), /not base64/],
    ['half a number', JSON.stringify({ ...record, ids: 'AQAA' }), /not base64 of a whole number of elements/],
    ['a target in the prompt', JSON.stringify({ ...record, targets: int32(1, 3) }), /after the prompt/],
    ['a target beyond the end', JSON.stringify({ ...record, targets: int32(2, 4) }), /after the prompt/],
    ['targets twice', JSON.stringify({ ...record, targets: int32(2, 2) }), /ascending/],
    ['too few log-probs', JSON.stringify({ ...record, log_probs: '' }), /2 targets, 0 log_probs/],
    ['a prompt longer than all', JSON.stringify({ ...record, prompt_length: 5 }), /prompt_length 5 exceeds its 4 ids/],
    ['neither reward nor error', JSON.stringify({ ...record, reward: null }), /must have a reward, an error or a reward to come \(unpaid\)/],
    ['a reward that is still to come', JSON.stringify({ ...record, unpaid: true }), /only one of them/],
    ['a mark of the wrong value', JSON.stringify({ ...record, reward: null, unpaid: false }), /unpaid/],
  ])('refuses %s', (_name, text, problem) => {
    expect(parseTrajectory(text)).toEqual({ problem: expect.stringMatching(problem) as string });
  });
});
