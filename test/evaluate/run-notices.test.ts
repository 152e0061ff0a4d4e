import { describe, expect, it } from 'vitest';
import type { RecordedRollout } from '../../src/evaluate/recorded-rollout.ts';
import { runNotices } from '../../src/evaluate/run-notices.ts';

const limits = { responseTokens: 9, observationTokens: 500, contextTokens: 99 };
const rubric = { displays: new Map([['em_without_answer', { remark: 'have an answer that the model did not write.' }]]) };
const rollout = (changes: Partial<RecordedRollout>) => ({ error: null, metrics: {}, cutObservations: 0, ...changes }) as RecordedRollout;

describe('runNotices', () => {
  it('says nothing where nothing happened', () => {
    expect(runNotices([rollout({ metrics: { em: 1, em_without_answer: 0 } })], { limits, rubric })).toEqual([]);
    const failed = rollout({ error: { type: 'PolicyError', message: '' }, cutObservations: 3 });
    expect(runNotices([failed], { limits, rubric })).toEqual([]);
  });

  it('says that no figure is of the rows that were not played', () => {
    const unplayed = (groupId: string) => rollout({ groupId, error: { type: 'UnplayedError', message: '' } });
    const [notice, ...more] = runNotices([unplayed('a'), unplayed('a'), rollout({ groupId: 'b' })], { limits, rubric });
    expect(notice).toMatch(/^2 of 3 rollouts, of 1 row, were not played: .* every figure is of the other rows only/);
    expect(more).toEqual([]);
  });

  it('names what agents asked for in vain', () => {
    const rollouts = [rollout({ unhonoured: ['verbosity', 'reasoning.effort'] }), rollout({ unhonoured: ['verbosity'] }), rollout({})];
    expect(runNotices(rollouts, { limits, rubric })).toEqual([
      "In 2 of 3 rollouts the agent's requests set reasoning.effort, verbosity, which this policy cannot honour and which changed nothing.",
    ]);
  });

  it('counts observations that were cut, and names the argument to raise', () => {
    const rollouts = [rollout({ cutObservations: 2 }), rollout({ cutObservations: 1 }), rollout({})];
    const [named] = runNotices(rollouts, { limits, rubric, limitArguments: { observationTokens: 'max_obs_length' } });
    expect(named).toMatch(/^3 observations in 2 of 3 rollouts were cut to their first 500 tokens.*raise max_obs_length/);
    expect(runNotices(rollouts, { limits, rubric })[0]).toMatch(/raise that limit/);
  });

  it('counts the rollouts in which a metric with a remark is not 0', () => {
    const rollouts = [rollout({ metrics: { em_without_answer: 1 } }), rollout({ metrics: { em_without_answer: 0 } })];
    expect(runNotices(rollouts, { limits, rubric })).toEqual([
      expect.stringMatching(/^1 of 2 rollouts have an answer that the model did not write\.$/),
    ]);
  });

  it('counts the finished rollouts in which a metric failed, with the first message', () => {
    const failing = (error: string) => rollout({ metricErrors: { notes: error } });
    const rollouts = [failing('Metric "notes" failed: TypeError: no notes'), failing('Metric "notes" gave NaN.'), rollout({})];
    expect(runNotices(rollouts, { limits, rubric })).toEqual([
      'Metric "notes" failed in 2 of 3 rollouts: TypeError: no notes. Its mean leaves these rollouts out; their rewards count.',
    ]);
    expect(runNotices(rollouts.slice(1), { limits, rubric })[0]).toContain('failed in 1 of 2 rollouts: it gave NaN. Its mean');
  });

  it('counts the rollouts whose environment could not clean up, failed ones included, with the first message', () => {
    const unclean = { cleanUpError: 'Error: no such container' };
    const rollouts = [rollout(unclean), rollout({}), rollout({ ...unclean, error: { type: 'PolicyError', message: '' } })];
    expect(runNotices(rollouts, { limits, rubric })).toEqual([
      expect.stringMatching(/^Clean-up failed in 2 of 3 rollouts: Error: no such container\. /),
    ]);
  });
});
