import { describe, expect, it } from 'vitest';
import { heldOutArguments, judgeSeeing, type SeeingRun } from '../../../scripts/proof/visual-sees.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

interface Measured {
  readonly reward?: readonly [number, number];
  readonly blank?: number;
  readonly difference?: number;
  readonly seconds?: number;
  readonly isControl?: boolean;
}

function run({ reward = [0.28, 0.93], blank = 0.07, difference = 1e-5, seconds = 300, isControl = false }: Measured = {}): SeeingRun {
  const row = (kind: MetricsRow['kind'], step: number, values: Record<string, number>) => ({ kind, step, values }) as unknown as MetricsRow;
  const rows = [
    row('evaluation', 0, { reward_mean: reward[0] }),
    row('step', 1, { log_prob_difference_max: difference }),
    row('evaluation', 1, { reward_mean: reward[1] }),
  ];
  return { label: 'seed 0', isControl, seconds, directory: '', adapter: '', cpuSeconds: 0, peakMemoryBytes: 0, rows, blank };
}

const failures = (measured: Measured, quick = false) =>
  judgeSeeing(run(measured), { quick, isStrict: true })
    .filter(({ ok }) => !ok)
    .map(({ text }) => text);

describe('judgeSeeing', () => {
  it('passes a run that learns on pages and guesses on white ones', () => {
    expect(failures({})).toEqual([]);
  });

  it.each([
    [{ blank: 0.3 }, /0\.300 on white pages, 0\.930 on the pages themselves; at most 0\.15/],
    [{ reward: [0.28, 0.7] }, /0\.280 → 0\.700/],
    [{ reward: [0.4, 0.93] }, /0\.400 → 0\.930/],
    [{ difference: 1e-3 }, /1\.0e-3 in the worst token/],
    [{ seconds: 700 }, /11\.7 minutes; at most 10/],
    [{ isControl: true, reward: [0.28, 0.3] }, /must not rise/],
  ] as const)('names what a run misses {%j}', (measured, text) => {
    expect(failures(measured)).toEqual([expect.stringMatching(text)]);
  });

  it('has a lower bar for few steps, and none for their time', () => {
    expect(failures({ reward: [0.28, 0.6], seconds: 900 }, true)).toEqual([]);
    expect(failures({ reward: [0.28, 0.4] }, true)).toHaveLength(1);
  });
});

describe('heldOutArguments', () => {
  it('are those of training, but for held-out questions', () => {
    expect(heldOutArguments()).toMatchObject({ dataset: 'recipes/vlm/squares/heldout.jsonl', shown_pixels: [4096, 16_384], max_turns: 5 });
  });
});
