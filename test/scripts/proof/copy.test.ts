import { describe, expect, it } from 'vitest';
import { type CopyRun, judgeCopyRun } from '../../../scripts/proof/copy.ts';
import { COPY_PROOFS, SECONDS } from '../../../scripts/proof/copy-proofs.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const [proof] = COPY_PROOFS as [CopyRun['proof']];

function run(before: number, after: number, changes: Partial<CopyRun> = {}): CopyRun {
  const row = (kind: MetricsRow['kind'], step: number, values: Record<string, number>) => ({ kind, step, values }) as unknown as MetricsRow;
  const rows = [
    row('evaluation', 0, { [proof.metric]: before }),
    row('step', 3, { log_prob_difference_max: 0 }),
    row('evaluation', 3, { [proof.metric]: after }),
  ];
  const figures = { seconds: SECONDS, cpuSeconds: 90, peakMemoryBytes: null, directory: '/nowhere', adapter: null };
  return { label: 'one-hop, seed 0', isControl: false, ...figures, rows, proof, ...changes };
}

const passes = (judged: CopyRun, { quick = false, isStrict = true } = {}) => judgeCopyRun(judged, { quick, isStrict }).every(({ ok }) => ok);

describe('judgeCopyRun', () => {
  it('passes a run that starts at most at one bar and ends at least at the other, within the time', () => {
    expect(passes(run(proof.start, proof.end))).toBe(true);
    expect(passes(run(proof.start + 0.01, proof.end))).toBe(false);
    expect(passes(run(proof.start, proof.end - 0.01))).toBe(false);
    expect(passes(run(NaN, proof.end))).toBe(false);
    expect(passes(run(proof.start, proof.end, { seconds: SECONDS + 1 }))).toBe(false);
    expect(passes(run(proof.start, proof.end, { seconds: SECONDS + 1 }), { isStrict: false })).toBe(true);
  });

  it('has a lower bar for a few steps', () => {
    expect(passes(run(proof.start, proof.quickEnd), { quick: true })).toBe(true);
    expect(passes(run(proof.start, proof.quickEnd))).toBe(false);
  });

  it('fails a control that rises, and a run whose trainer and sampler differ', () => {
    expect(passes(run(0.1, 0.05, { isControl: true }))).toBe(true);
    expect(passes(run(0.1, 0.2, { isControl: true }))).toBe(false);
    const differing = run(proof.start, proof.end).rows.map((row) => ({ ...row, values: { ...row.values, log_prob_difference_max: 1e-3 } }));
    expect(passes(run(proof.start, proof.end, { rows: differing.map((row, i) => (i === 1 ? { ...row, kind: 'step' as const } : row)) }))).toBe(false);
  });
});
