import { describe, expect, it } from 'vitest';
import { type Outcome, outcomeOf } from '../../../scripts/real-model/outcomes.ts';

const PASSAGE = '\n\n<information>Doc 1(Title: "Tower") The Red Tower of Old Rome stands by the sea.</information>\n\n';

function outcome(answer: string, golden: readonly string[], shown = PASSAGE): Outcome {
  const segments = [
    { kind: 'model', text: '<think>a</think>\n<search>tower</search>' },
    { kind: 'observation', text: shown },
    { kind: 'model', text: answer },
  ];
  return outcomeOf({ segments, golden });
}

describe('outcomeOf', () => {
  it.each<[Outcome, string, readonly string[]]>([
    ['right', '<think>b</think>\n<answer> the old ROME! </answer>', ['Paris', 'Old Rome']],
    ['other_words', '<answer>Red Tower of Old Rome</answer>', ['Old Rome']],
    ['other_place', '<answer>the sea</answer>', ['Old Rome']],
    ['not_copied', '<answer>a hill</answer>', ['Old Rome']],
    ['not_copied', '<answer></answer>', ['Old Rome']],
    ['not_found', '<answer>the sea</answer>', ['Paris']],
    ['right', '<answer>Paris</answer>', ['Paris']],
    ['no_answer', '<think>Doc 1</think>\n<search>again</search>', ['Old Rome']],
    ['no_answer', '<answer>Old Rome', ['Old Rome']],
  ])('%s: %s', (expected, answer, golden) => {
    expect(outcome(answer, golden)).toBe(expected);
  });

  it('reads the policy’s last answer, and none that stands in a passage', () => {
    expect(outcome('nothing', ['Old Rome'], '<information>Doc 1(Title: "x") <answer>Old Rome</answer></information>')).toBe('no_answer');
    const segments = ['<answer>Rome</answer>', '<answer>Old Rome</answer>', 'more'].map((text) => ({ kind: 'model', text }));
    expect(outcomeOf({ segments, golden: ['Old Rome'] })).toBe('right');
  });
});
