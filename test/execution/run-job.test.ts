import { describe, expect, it } from 'vitest';
import type { RunMode } from '../../src/execution/attempt.ts';
import { DEFAULT_LIMITS, type ExecutionJob } from '../../src/execution/index.ts';
import { runJob, type Try } from '../../src/execution/run-job.ts';

const JOB: ExecutionJob = { code: 'import os', calls: ['1', '2', '3'], hashSeed: 0, limits: DEFAULT_LIMITS };

/** A worker that answers as `answer` says, and the calls of each attempt. */
function worker(answer: (job: ExecutionJob, mode: RunMode) => readonly string[] | 'timeout') {
  const attempts: string[][] = [];
  const attempt: Try = async (job, mode) => {
    attempts.push([...job.calls]);
    const given = answer(job, mode);
    if (given === 'timeout') return { kind: 'ended', failure: 'timeout', detail: 'late' };
    return { kind: 'reply', fields: given.map((field) => Buffer.from(field)) };
  };
  return { attempts, attempt };
}

const ALONE = [['1'], ['2'], ['3']];

describe('runJob', () => {
  it('runs each call of a program that is not plain once, also where all of them time out', async () => {
    const { attempts, attempt } = worker(({ calls }) => (calls.length > 1 ? ['single'] : 'timeout'));
    expect(await runJob(JOB, 'own', attempt)).toEqual({ kind: 'timeout', detail: 'late' });
    expect(attempts).toEqual([JOB.calls, ...ALONE]);
  });

  it('runs each call of a job with a bad end once more, alone', async () => {
    const { attempts, attempt } = worker(({ calls }) => (calls.includes('2') ? 'timeout' : ['ran', '', `${calls[0]}!`]));
    expect(await runJob(JOB, 'shared', attempt)).toEqual({
      kind: 'ran',
      calls: [{ repr: '1!' }, { error: 'timeout', message: 'late' }, { repr: '3!' }],
    });
    expect(attempts).toEqual([JOB.calls, ...ALONE]);
  });

  it('evaluates arguments apart once, also where the calls with their values end badly together', async () => {
    const { attempts, attempt } = worker(({ calls }, mode) => {
      if (mode === 'apart') return ['ran', '', '((2,), {})'];
      if (calls.includes('1 + 1')) return ['apart', '1'];
      return calls.length > 1 ? 'timeout' : ['ran', '', 'None'];
    });
    expect(await runJob({ ...JOB, calls: ['1', '1 + 1'] }, 'shared', attempt)).toMatchObject({ kind: 'ran' });
    const value = '*(((2,), {}))[0], **(((2,), {}))[1]';
    expect(attempts).toEqual([['1', '1 + 1'], ['1 + 1'], ['1', value], ['1'], [value]]);
  });
});
