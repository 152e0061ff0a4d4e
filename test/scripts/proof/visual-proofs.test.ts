import { existsSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ProvenRun } from '../../../scripts/proof/training-proof.ts';
import { keepPart, writeVisualPage } from '../../../scripts/proof/visual-page.ts';
import { judgeClip, type VisualPart } from '../../../scripts/proof/visual-proofs.ts';
import type { MetricsRow } from '../../../src/trainer/records/metrics.ts';

const ROWS: MetricsRow[] = [
  { kind: 'evaluation', step: 0, values: { reward_mean: 0.25 } },
  { kind: 'step', step: 1, values: { reward_mean: 0.5, loss: 1 } },
  { kind: 'evaluation', step: 1, values: { reward_mean: 0.75 } },
];

function part(verdict: string): VisualPart {
  const run: ProvenRun = {
    label: 'visual-rag, seed 0',
    isControl: false,
    seconds: 1,
    peakMemoryBytes: null,
    cpuSeconds: null,
    directory: 'a run',
    adapter: null,
    rows: ROWS,
  };
  return {
    title: 'A part',
    lines: ['It learns.'],
    chart: { title: 'the part', goals: [{ value: 0.9, label: 'goal' }] },
    runs: [run],
    records: [{ label: run.label }],
    verdicts: [{ ok: true, text: verdict }],
  };
}

describe('writeVisualPage', () => {
  it('writes a page of the parts that are kept; a part that is proved again replaces its own results', () => {
    const output = join(mkdtempSync(join(tmpdir(), 'vf-proof-page-')), 'results');
    mkdirSync(output);
    keepPart(output, 'laptop', part('first'));
    writeVisualPage(output);
    const page = () => readFileSync(join(output, 'visual.md'), 'utf8');
    expect(page()).toContain('## A part\n\nWritten by `npm run prove:visual');
    expect(page()).toContain('- ok: first');
    expect(readFileSync(join(output, 'visual.svg'), 'utf8')).toContain('the part');
    expect(existsSync(join(output, 'visual.json'))).toBe(true);
    const { runs } = JSON.parse(readFileSync(join(output, 'visual/laptop.json'), 'utf8')) as { runs: { rewards: unknown }[] };
    expect(runs[0]!.rewards).toEqual([
      { kind: 'evaluation', step: 0, reward: 0.25 },
      { kind: 'step', step: 1, reward: 0.5 },
      { kind: 'evaluation', step: 1, reward: 0.75 },
    ]);
    keepPart(output, 'laptop', part('second'));
    writeVisualPage(output);
    expect(page()).not.toContain('ok: first');
    expect(page()).toContain('- ok: second');
    expect(JSON.parse(readFileSync(join(output, 'visual.json'), 'utf8'))).toMatchObject({
      laptop: { runs: [{ label: 'visual-rag, seed 0' }], verdicts: [{ text: 'second' }] },
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
    const rows = shares.map((share, step) => ({ kind: 'step', step, values: { clip_fraction_sequences: share } }) as unknown as MetricsRow);
    expect(judgeClip({ label: 'a run', rows })).toEqual({ ok, text: expect.stringMatching(text) });
  });
});
