import { describe, expect, it } from 'vitest';
import { recordedRollout } from '../../src/evaluate/recorded-rollout.ts';
import type { WireResult } from '../../src/schemas/results.ts';

const result = (change: Partial<WireResult>) =>
  ({
    reward: 0,
    metrics: { em: 0 },
    error: null,
    stop_condition: 'prompt_too_long',
    num_turns: 0,
    timing: { start_time: 0, total: 1 },
    token_usage: { input_tokens: 0, output_tokens: 0, cached_tokens: null },
    ...change,
  }) as WireResult;

describe('recordedRollout', () => {
  it('reads a reward of an earlier version as none where the policy had no room for a first token', () => {
    expect(recordedRollout(result({}))).toMatchObject({ reward: null, metrics: {}, stop: 'prompt_too_long', error: { type: 'UnplayedError' } });
  });

  it.each([{ num_turns: 1 }, { stop_condition: 'completed' }])('keeps the reward of a rollout that was played: %j', (change) => {
    expect(recordedRollout(result(change))).toMatchObject({ reward: 0, metrics: { em: 0 }, error: null });
  });
});
