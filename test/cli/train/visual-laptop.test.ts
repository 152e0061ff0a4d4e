/** `vf-train visual-rag --preset laptop` as a newcomer runs it, short: with Node alone it learns, and with negated advantages it does not. */
import { afterAll, describe, expect, it } from 'vitest';
import { join } from 'node:path';
import { readMetrics } from '../../../src/trainer/records/metrics-journal.ts';
import { finished, TrainFolder } from '../../vllm/train-process.ts';

/** No program but Node can be called. */
const ALONE = { PATH: '/nonexistent', VF_BASE_URL: '' };
const SHORT = ['--steps', '5', '--seed', '0', '-o', '.', '--set', 'evaluation.examples=80'];

describe('vf-train visual-rag --preset laptop', { timeout: 300_000 }, () => {
  const folders: TrainFolder[] = [];
  afterAll(() => {
    for (const folder of folders) folder[Symbol.dispose]();
  });

  /** Held-out rewards before and after, and what a step measured. */
  async function train(...settings: string[]) {
    const folder = new TrainFolder();
    folders.push(folder);
    const running = folder.start(['visual-rag', '--preset', 'laptop', ...SHORT, ...settings], ALONE);
    try {
      const summary = await finished<{ readonly reason: string; readonly log_prob_difference: { readonly max: number } }>(running);
      expect(summary).toMatchObject({ reason: 'finished', log_prob_difference: { max: 0 } });
    } finally {
      await running.kill();
    }
    const rows = await readMetrics(join(folder.run()!.path, 'metrics.jsonl'));
    const rewards = rows.flatMap(({ kind, values }) => (kind === 'evaluation' ? [values['reward_mean']!] : []));
    const clipped = rows.flatMap(({ kind, values }) => (kind === 'step' ? [values['clip_fraction_sequences']!] : []));
    return { before: rewards[0]!, after: rewards.at(-1)!, clipped, said: running.said() };
  }

  it('learns within five steps with the clip of GSPO, from a start of at most .35', { tags: 'long' }, async () => {
    const { before, after, clipped, said } = await train();
    for (const part of ['nano-pages to play visual-rag on page-world', 'GSPO', 'no server, no Python']) expect(said).toContain(part);
    expect(before).toBeLessThan(0.36);
    expect(after).toBeGreaterThan(before + 0.08);
    expect(clipped).toHaveLength(5);
    expect(Math.max(...clipped)).toBeGreaterThan(0);
    expect(Math.max(...clipped)).toBeLessThan(1);
  });

  it('does not learn from negated advantages', { tags: 'long' }, async () => {
    const { before, after } = await train('--set', 'algorithm.negate_advantages=true');
    expect(after).toBeLessThan(before);
  });
});
