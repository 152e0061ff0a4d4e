import { describe, expect, it } from 'vitest';
import { renderTranscript } from '../../../src/reports/evaluation/render-transcript.ts';
import { noPaint } from '../../../src/reports/text/paint.ts';

const sample = { exampleId: 'a', rolloutIndex: 0, prompt: [], segments: [], reward: 1, stopCondition: 'completed' };
const shown = (answer: unknown) => renderTranscript({ ...sample, answer }, { columns: 80, paint: noPaint, full: false }).slice(1);

describe('renderTranscript', () => {
  it.each([
    ['a string', 'Paris'],
    ['a list of answers', ['Paris', 'City of Light']],
    ['info with upstream’s ground truth', { data_source: 'nq', ground_truth: { target: ['Paris', 'City of Light'] } }],
    ['info with golden answers', { golden_answers: ['Paris'], level: 'hard' }],
  ])('shows the answers that count from %s', (_, answer) => {
    expect(shown(answer)).toEqual([expect.stringMatching(/^ {2}reference +Paris( \| City of Light)?$/)]);
  });

  it.each([
    [1.8599999999999999, '1.86'],
    [0.052500000000000005, '0.0525'],
    [1 / 3, '0.333333'],
    [0, '0'],
    [-2, '-2'],
  ])('writes a reward of %s as %s', (reward, text) => {
    const [title] = renderTranscript({ ...sample, reward, answer: null }, { columns: 80, paint: noPaint, full: false });
    expect(title).toBe(`One rollout  row a, rollout 1, reward ${text}, completed`);
  });

  it('shows info of any other kind as one fact per line, not as JSON', () => {
    expect(shown({ level: 'hard', sources: [1, 2] })).toEqual([
      expect.stringMatching(/^ {2}reference +level: hard$/),
      expect.stringMatching(/^ +sources: \[1,2\]$/),
    ]);
    expect(shown(null)).toEqual([]);
  });

  it('shows what the models by role replied after the episode, and no refiner’s reply twice', () => {
    const segments = [
      { kind: 'model', text: '<search>capital</search>' },
      { kind: 'observation', text: '<result>Paris is the capital.</result>' },
      { kind: 'observation', text: 'Page, 728 x 560 pixels:\nChair: Ada Lee' },
    ];
    const asked = [
      { role: 'refiner', text: 'I read three pages. Final information: Paris is the capital.' },
      { role: 'generator', text: 'Ada Lee' },
      { role: 'judge', text: '{"score": 1}' },
    ];
    const lines = renderTranscript({ ...sample, segments, asked, answer: 'Ada Lee' }, { columns: 80, paint: noPaint, full: false });
    expect(lines.slice(-3)).toEqual(['  generator    Ada Lee', '  judge        {"score": 1}', '  reference    Ada Lee']);
    expect(lines.filter((line) => line.includes('refiner'))).toEqual([]);
  });

  it('puts a headline before each branch: which it is, where and why it left another, and what it read that no other did', () => {
    const segments = ['a', 'b', 'c', 'd'].map((text, i) => ({ kind: i === 2 ? 'observation' : 'model', text }));
    const difference = 'message 1 (user) was "x" and is "y" from character 0 on';
    const branches = [
      { segments: 1, parent: null, fork: null },
      { segments: 0, parent: null, fork: { kind: 'system', at: 0, difference: 'message 0 (system) was another\u001b[2J' }, role: 'writer' },
      { segments: 3, parent: 0, fork: { kind: 'history', at: 1, difference }, prompt: [{ role: 'user', content: 'What is known: y' }] },
    ];
    const lines = renderTranscript({ ...sample, segments, branches, answer: null }, { columns: 200, paint: noPaint, full: false });
    expect(lines).toEqual([
      'One rollout  row a, rollout 1, reward 1, completed, 3 branches',
      '  branch 0',
      '  model        a',
      expect.stringMatching(/^ {2}branch 1: writer, another system prompt, began anew: message 0 \(system\) was another\S+$/),
      `  branch 2: its history was rewritten, left branch 0 after 1 message: ${difference}`,
      '  user         What is known: y',
      '  model        b',
      '  observation  c',
      '  model        d',
    ]);
    expect(lines.join('')).not.toContain('\u001b');
  });
});
