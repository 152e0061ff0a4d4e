import { describe, expect, it } from 'vitest';
import type { ModelFailure } from '../../src/core/errors.ts';
import type { RecordedRollout } from '../../src/evaluate/recorded-rollout.ts';
import { figures, sampleTranscript } from '../../src/evaluate/summary.ts';
import type { WireResult } from '../../src/schemas/results.ts';
import type { Summary } from '../../src/schemas/summary.ts';
import { summaryToWire } from '../../src/schemas/summary.ts';

function rollout(example: number, index: number, changes: Partial<RecordedRollout> = {}): RecordedRollout {
  return {
    rolloutId: `${example}/${index}`,
    groupId: String(example),
    index,
    task: null,
    reward: 0,
    metrics: { em: 0, searches: 1 },
    stop: 'completed',
    error: null,
    isTruncated: false,
    isCut: false,
    turns: 2,
    policy: { model: 'policy', version: 0 },
    usage: { inputTokens: 100, outputTokens: 10, cachedTokens: 60 },
    cutObservations: 0,
    endedAtMs: 0,
    ...changes,
  };
}

const failed = (example: number, index: number, type: string): RecordedRollout =>
  rollout(example, index, {
    reward: null,
    metrics: {},
    stop: 'has_error',
    error: { type, message: `${type} of ${example}/${index}` },
    usage: { inputTokens: 100, outputTokens: 10, cachedTokens: 0 },
  });

/** Two examples, four rollouts each: 3 and 1 right, one of the second failed. */
const rollouts = [
  ...[1, 1, 0, 1].map((reward, i) => rollout(0, i, { reward, metrics: { em: reward, searches: 2 } })),
  ...[0, 1, 0].map((reward, i) => rollout(1, i, { reward, metrics: { em: reward, searches: 1 }, stop: 'max_turns_reached', isTruncated: i === 0 })),
  failed(1, 3, 'RetrievalError'),
];
const options = { planned: 12, rolloutsPerExample: 4, displays: new Map([['searches', { isCount: true }]]) };

describe('figures', () => {
  const got = figures(rollouts, options);

  it('counts what was planned, recorded, finished and failed', () => {
    expect(got.rollouts).toEqual({ planned: 12, recorded: 8, finished: 7, errored: 1 });
    expect([got.complete, got.examples]).toEqual([false, 2]);
  });

  it('averages over finished rollouts only', () => {
    expect(got.reward).toMatchObject({ value: 4 / 7, n: 7 });
    expect(got.metrics['em']).toMatchObject({ value: 4 / 7, n: 7 });
    expect(got.metrics['searches']).toMatchObject({ value: 11 / 7, n: 7 });
    expect(got.truncated).toMatchObject({ value: 1 / 7, n: 7 });
  });

  it('gives pass@k over the examples that have k finished rollouts', () => {
    // k = 2: 1 - C(1,2)/C(4,2) = 1 and 1 - C(2,2)/C(3,2) = 2/3; k = 4: the first example alone
    expect(Object.entries(got.passAtK).map(([k, e]) => [k, e.value, e.n])).toEqual([
      ['1', expect.closeTo((3 / 4 + 1 / 3) / 2, 12), 2],
      ['2', expect.closeTo((1 + 2 / 3) / 2, 12), 2],
      ['4', 1, 1],
    ]);
    // k = 2: C(3,2)/C(4,2) = 1/2 and 0
    expect(got.passAllK['2']).toMatchObject({ value: expect.closeTo(1 / 4, 12) as number, n: 2 });
  });

  it('counts a reward at the threshold as a pass', () => {
    const two = figures([rollout(0, 0, { reward: 0.5 }), rollout(0, 1, { reward: 0.5 })], { planned: 2, rolloutsPerExample: 2 });
    expect([two.passThreshold, two.passAtK['1']?.value]).toEqual([0.5, 1]);
  });

  it('has no pass@k for one rollout per example', () => {
    expect(figures([rollout(0, 0)], { planned: 1, rolloutsPerExample: 1 })).toMatchObject({ passAtK: {}, passAllK: {} });
  });

  it('tallies stops and errors, the most frequent first', () => {
    const many = figures([...rollouts, failed(2, 0, 'PrefixBreakError'), failed(2, 1, 'PrefixBreakError')], options);
    expect(Object.entries(many.stopConditions)).toEqual([
      ['completed', 4],
      ['has_error', 3],
      ['max_turns_reached', 3],
    ]);
    expect(Object.entries(many.errors)).toEqual([
      ['PrefixBreakError', 2],
      ['RetrievalError', 1],
    ]);
    expect(many.errorExamples).toEqual({ PrefixBreakError: 'PrefixBreakError of 2/0', RetrievalError: 'RetrievalError of 1/3' });
    expect(many.prefixBreaks).toBe(2);
  });

  it('counts how models other than the policy failed, by error class', () => {
    const judged = (index: number, reason: ModelFailure) => rollout(5, index, { reward: null, error: { type: 'ModelError', message: 'm', reason } });
    const many = figures([...rollouts, judged(0, 'budget'), judged(1, 'malformed'), judged(2, 'malformed')], options);
    expect(many.errorReasons).toEqual({ ModelError: { malformed: 2, budget: 1 } });
    expect(figures(rollouts, options)).not.toHaveProperty('errorReasons');
  });

  it('adds up tokens, and gives no cache figure when one server call gave none', () => {
    expect(got.tokens).toEqual({ input: 800, output: 80, cached: 420, inputPerRollout: 100, outputPerRollout: 10 });
    expect(
      figures([...rollouts, rollout(3, 0, { usage: { inputTokens: 1, outputTokens: 1, cachedTokens: null } })], options).tokens.cached,
    ).toBeNull();
  });

  it('treats a count as a count even where each is 0 or 1', () => {
    const ones = figures(
      [0, 1, 2].map((i) => rollout(i, 0)),
      { ...options, rolloutsPerExample: 1 },
    );
    expect(ones.metrics['searches']).toEqual({ value: 1, low: null, high: null, n: 3 });
    expect(ones.metrics['em']).toMatchObject({ value: 0, low: 0, high: expect.closeTo(0.5615, 3) as number });
  });

  it('has the figures of each task, and none where rows have no tasks', () => {
    expect(got.tasks).toBe(undefined);
    const mixed = [
      rollout(0, 0, { task: 'sums', reward: 1, metrics: { right: 1 } }),
      rollout(1, 0, { task: 'search', reward: 0 }),
      rollout(2, 0, { task: 'search', reward: 1, metrics: { em: 1, searches: 3 } }),
    ];
    const { tasks } = figures(mixed, options);
    expect(Object.keys(tasks!)).toEqual(['sums', 'search']);
    expect(tasks!['sums']).toMatchObject({ finished: 1, reward: { value: 1, n: 1 }, metrics: { right: { value: 1 } } });
    expect(tasks!['search']).toMatchObject({ finished: 2, reward: { value: 0.5 }, metrics: { em: { value: 0.5 }, searches: { value: 2 } } });
  });

  it('has no figure where there is nothing to count', () => {
    expect(figures([], options)).toMatchObject({ reward: null, metrics: {}, tokens: { cached: null, inputPerRollout: null } });
  });
});

describe('summaryToWire', () => {
  it('is snake_case down to every field and leaves names of metrics and errors alone', () => {
    const wire = summaryToWire({
      ...figures([...rollouts, rollout(4, 0, { metrics: { camelCase: 1 } })], options),
      envId: 'x',
      model: 'm',
      policyKind: 'chat',
      directory: 'd',
      wallSeconds: 1,
      rolloutsPerSecond: 2,
      sample: { exampleId: 1, rolloutIndex: 0, prompt: [], segments: [], answer: { keptAsIs: 1 }, reward: 1, stopCondition: 'completed' },
      notices: [],
    } satisfies Summary);
    expect(wire).toMatchObject({
      env_id: 'x',

      rollouts: { planned: 12 },
      stop_conditions: { max_turns_reached: 3 },
      errors: { RetrievalError: 1 },
      metrics: { camelCase: { value: 1 } },
      pass_at_k: { 4: { value: 1 } },
      tokens: { input_per_rollout: 100 },
      sample: { example_id: 1, stop_condition: 'completed', answer: { keptAsIs: 1 } },
      rollouts_per_second: 2,
    });
    expect(Object.keys(wire).filter((key) => /[A-Z]/.test(key))).toEqual([]);
  });
});

describe('sampleTranscript', () => {
  it('marks the images of the prompt where they are', () => {
    const image = { type: 'image', sha256: 'a', media_type: 'image/png', width: 28, height: 28 } as const;
    const parts = [{ type: 'text', text: 'Which ' } as const, image, { type: 'text', text: ' is it?' } as const];
    const prompt = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Which  is it?', parts },
    ];
    const result = { example_id: 1, rollout_index: 0, prompt, segments: [], reward: 1, stop_condition: 'completed' };
    expect(sampleTranscript(result as unknown as WireResult)!.prompt).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Which <image> is it?' },
    ]);
  });

  it('has the branches with their numbers of segments, unless the segments are texts that an agent gave', () => {
    const branch = { parent: null, fork: null, generations: 1, tokens: 4, sampled_tokens: 1, segments: 1 };
    const second = { ...branch, parent: 0, fork: { kind: 'system', at: 0, difference: 'another' }, role: 'writer', begins_with: null, prompt: [] };
    const result = (branches: readonly object[]) =>
      sampleTranscript({ example_id: 1, rollout_index: 0, prompt: [], segments: [], reward: 1, stop_condition: 'completed', branches } as never)!;
    expect(result([branch, second]).branches).toEqual([
      { parent: null, fork: null, segments: 1 },
      { parent: 0, fork: second.fork, segments: 1, role: 'writer', prompt: [] },
    ]);
    expect(result([branch])).not.toHaveProperty('branches');
    expect(result([branch, { ...second, played: { segments: [], completion: [] } }])).not.toHaveProperty('branches');
  });
});
