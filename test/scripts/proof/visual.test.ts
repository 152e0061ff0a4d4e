import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { VISUAL_PAGE } from '../../../scripts/proof/visual.ts';
import { judgeClip } from '../../../scripts/proof/visual-laptop.ts';
import { type ProofPart, writePart } from '../../../scripts/proof/parts-page.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const row = (kind: MetricsRow['kind'], step: number, reward: number): MetricsRow => ({ kind, step, values: { reward_mean: reward } });

function part(title: string, verdict: string): ProofPart {
  const figures = { isControl: false, seconds: 1, peakMemoryBytes: null, cpuSeconds: null, directory: '/nowhere', adapter: null };
  return {
    title,
    lines: ['It learns.'],
    chart: { title, goals: [{ value: 0.9, label: 'goal' }] },
    runs: [{ label: 'visual-rag, seed 0', ...figures, rows: [row('evaluation', 0, 0.3), row('step', 1, 0.5), row('evaluation', 1, 0.95)] }],
    records: [{ label: 'visual-rag, seed 0' }],
    verdicts: [{ ok: true, text: verdict }],
  };
}

describe('writePart', () => {
  it('writes a page of all parts that were proved; a part that is proved again replaces its own results alone', () => {
    const output = join(mkdtempSync(join(tmpdir(), 'vf-proof-page-')), 'results');
    const write = (name: string, title: string, verdict: string) =>
      writePart({ command: `npm run prove visual -- --only ${name}`, output }, VISUAL_PAGE, name, part(title, verdict));
    const file = (ending: string) => readFileSync(join(output, `visual.${ending}`), 'utf8');
    write('loop', 'The loop', 'it closes');
    write('laptop', 'The laptop', 'first');
    expect(file('md')).toContain('## The laptop\n\nProved by `npm run prove visual -- --only laptop` on ');
    expect(file('md').indexOf('## The laptop')).toBeLessThan(file('md').indexOf('## The loop'));
    expect(file('md')).toContain('- ok: laptop: first\n- ok: loop: it closes');
    const curve = (svg: string) => svg.match(/<(path|polyline)[^>]*>/g)?.length;
    const drawn = curve(file('svg'));
    write('laptop', 'The laptop', 'second');
    expect(file('md')).not.toContain('ok: laptop: first');
    expect(file('md')).toContain('- ok: laptop: second\n- ok: loop: it closes');
    expect(curve(file('svg'))).toBe(drawn);
    expect(JSON.parse(file('json'))).toMatchObject({
      command: 'npm run prove visual -- --only laptop',
      parts: {
        loop: {
          command: 'npm run prove visual -- --only loop',
          curves: [
            {
              label: 'seed 0',
              held_out: [
                { step: 0, reward_mean: 0.3 },
                { step: 1, reward_mean: 0.95 },
              ],
            },
          ],
        },
      },
    });
  });
});

describe('judgeClip', () => {
  it.each([
    [[0.2, 0.6], true, /0\.400 of the sequences/],
    [[0, 0], false, /0\.000 of the sequences/],
    [[1, 1], false, /1\.000 of the sequences/],
    [[], false, /NaN of the sequences/],
  ])('judges shares of clipped sequences of %j as %s', (shares, ok, text) => {
    const rows = shares.map((share, step): MetricsRow => ({ kind: 'step', step, values: { clip_fraction_sequences: share } }));
    expect(judgeClip({ label: 'a run', rows })).toEqual({ ok, text: expect.stringMatching(text) });
  });
});
