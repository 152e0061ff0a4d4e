import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseTrajectory, trajectoryRecord } from '../../../src/trainer/records/trajectory-record.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { anyTrajectory } from '../any-trajectory.ts';
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
