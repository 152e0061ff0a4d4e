import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

const script = join(import.meta.dirname, '../../scripts/bench/trainer-overhead.ts');
const directory = mkdtempSync(join(tmpdir(), 'trainer-overhead-'));
afterAll(() => rmSync(directory, { recursive: true }));

const step = (number: number, overhead: number | null) =>
  `${JSON.stringify({ kind: 'step', step: number, time: '2026-01-01T00:00:00Z', step_seconds: 4, overhead_cpu_seconds: overhead })}\n`;

function run(metrics: string, ...flags: string[]) {
  writeFileSync(join(directory, 'metrics.jsonl'), metrics);
  return spawnSync(process.execPath, ['--conditions=vf-search-source', script, directory, ...flags], { encoding: 'utf8' });
}

describe('scripts/bench/trainer-overhead.ts', () => {
  it('gives the median and the largest share of a step, from the last line of a repeated step and from no half line', () => {
    const evaluation = `${JSON.stringify({ kind: 'evaluation', step: 0, step_seconds: 1, overhead_cpu_seconds: 1 })}\n`;
    const { stdout, status } = run(
      `${evaluation}${step(1, 4)}${step(1, 0.04)}${step(2, 0.08)}${step(3, 0.4)}${step(4, null)}{"kind":"st`,
      '--json',
      '--strict',
    );
    const [median, largest] = JSON.parse(stdout) as { ours: number; peer: number; ratio: number; bar: number | null }[];
    expect(median).toMatchObject({ ours: 0.08, peer: 4, ratio: 0.02, bar: 0.05 });
    expect(largest).toMatchObject({ ours: 0.4, ratio: 0.1, bar: null });
    expect(status).toBe(0);
  });

  it('exits with 1 over the bar in strict mode', () => {
    expect(run(step(1, 0.3), '--strict').status).toBe(1);
    expect(run(step(1, 0.3)).status).toBe(0);
  });

  it('says what it expected where no step was measured', () => {
    const { stderr, status } = run('');
    expect(stderr).toContain('has no steps with overhead_cpu_seconds');
    expect(status).toBe(2);
  });
});
