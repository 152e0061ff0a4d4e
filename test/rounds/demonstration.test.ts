import { describe, expect, it } from 'vitest';
import { demonstration } from '../../src/rounds/demonstration.ts';
import type { TracedEvent } from '../../src/rounds/traced-rollouts.ts';

const turn = (n: number, action: string): TracedEvent => ({ kind: 'turn', turn: n, text: `<think>t</think>${action}` });

describe('demonstration', () => {
  it('keeps a search that found nothing, with the words that the policy saw', () => {
    const events: TracedEvent[] = [
      turn(0, '<search>a</search>'),
      { kind: 'pages', pictures: null, words: 'Nothing was found.' },
      turn(1, '<search>b</search>'),
      { kind: 'pages', pictures: ['page_1'], words: 'Page, 9 x 9 pixels:' },
      turn(2, '<search_complete>true</search_complete>'),
    ];
    const rollout = { prompt: 'q', index: 0, run: 'r', question: 'Q?', opening: [{ role: 'user', content: 'Q?' }], events } as never;
    expect(demonstration(rollout, {})!.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'Q?'],
      ['assistant', '<think>t</think><search>a</search>'],
      ['user', 'Nothing was found.'],
      ['assistant', '<think>t</think><search>b</search>'],
      ['user', 'Page, 9 x 9 pixels:'],
      ['assistant', '<think>t</think><search_complete>true</search_complete>'],
    ]);
  });
});
