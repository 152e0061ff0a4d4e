import { describe, expect, it } from 'vitest';
import { summaryIn } from '../../../src/rounds/driver/training-summary.ts';

const SUMMARY = { name: 'x', step: 2, reward: { first: 1 }, held_out: null, rollouts: { finished: 8, failed: 0 }, adapter: 'run/adapter' };
const line = JSON.stringify(SUMMARY);

describe('summaryIn', () => {
  it('finds the summary among the lines that code of an environment printed', () => {
    expect(summaryIn(`loading\n{"step": 1}\n${line}\nbye\n\n`)).toEqual(SUMMARY);
  });

  it.each(['', '\n', `${line.slice(0, -1)}\n`, '[]\n', `${JSON.stringify({ ...SUMMARY, adapter: 7 })}\n`])('finds none in %j', (stdout) => {
    expect(summaryIn(stdout)).toBeNull();
  });
});
