import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ProvenRun } from '../../../scripts/proof/training-proof.ts';
import { keepPart, writeVisualPage } from '../../../scripts/proof/visual-page.ts';
import { judgeClip, type VisualPart } from '../../../scripts/proof/visual-proofs.ts';
import type { MetricsRow } from '../../../src/trainer/records/metrics.ts';

const METRICS = join(import.meta.dirname, '../../../docs/results/seeds/search-o1-seed-0/metrics.jsonl');

function part(verdict: string): VisualPart {
  const directory = mkdtempSync(join(tmpdir(), 'vf-proof-run-'));
  cpSync(METRICS, join(directory, 'metrics.jsonl'));
  const run: ProvenRun = {
    label: 'visual-rag, seed 0',
    isControl: false,
    seconds: 1,
    peakMemoryBytes: null,
    cpuSeconds: null,
    directory,
    adapter: null,
    rows: [],
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
  it('writes a page of the parts that are kept; a part that is proved again replaces its own results', async () => {
    const output = join(mkdtempSync(join(tmpdir(), 'vf-proof-page-')), 'results');
    mkdirSync(output);
    keepPart(output, 'laptop', part('first'));
    await writeVisualPage(output);
    const page = () => readFileSync(join(output, 'visual.md'), 'utf8');
    expect(page()).toContain('## A part\n\nWritten by `npm run prove:visual');
    expect(page()).toContain('- ok: first');
    expect(readFileSync(join(output, 'visual.svg'), 'utf8')).toContain('the part');
    for (const file of ['visual.png', 'visual.json', 'visual/laptop/visual-rag-seed-0/metrics.jsonl'])
      expect(existsSync(join(output, file))).toBe(true);
    keepPart(output, 'laptop', part('second'));
    await writeVisualPage(output);
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
