import { describe, expect, it } from 'vitest';
import { PendingJobs } from '../../src/server/pending-jobs.ts';

describe('PendingJobs', () => {
  it('takes no further job of one client that has all places, unless it is shorter than one of them', () => {
    const jobs = new PendingJobs(2);
    const [short, long] = [jobs.admit('a', 2000)!, jobs.admit('a', 300_000)!];
    expect(jobs.admit('a', 400_000)).toBe(null);
    expect(jobs.admit('a', 1000)).not.toBe(null);
    expect([short.signal.aborted, long.signal.aborted, jobs.size]).toEqual([false, true, 2]);
  });

  it('lets the costliest job of the client that has most give way to another client’s, whatever that costs', () => {
    const jobs = new PendingJobs(4);
    const flood = [10, 30, 20, 5].map((seconds) => jobs.admit('flood', seconds * 1000)!);
    expect(jobs.admit('honest', 600_000)).not.toBe(null);
    expect(flood.map(({ signal }) => signal.aborted)).toEqual([false, true, false, false]);
    expect(jobs.admit('flood', 60_000)).toBe(null);
    expect(jobs.size).toBe(4);
  });

  it('frees the place of a job that is over', () => {
    const jobs = new PendingJobs(1);
    jobs.admit('a', 1)![Symbol.dispose]();
    expect(jobs.size).toBe(0);
    expect(jobs.admit('a', 5)).not.toBe(null);
  });
});
