/** peft and transformers compute, with the adapters of a training run, the log-probs that the run recorded while it sampled. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';
import { rolloutText } from '../trainer/kept-rollouts.ts';
import { describePeer, resultLine, runPeer } from './peer.ts';

const ROOT = join(import.meta.dirname, '../..');
const NANO = join(ROOT, 'models/nano-base');
const folder = mkdtempSync(join(tmpdir(), 'vf-interop-peft-'));
afterAll(() => rmSync(folder, { recursive: true }));

const STEPS = 3;
/** Every adapter and all rollouts stay. */
const SETTINGS = ['checkpoint.every=1', 'checkpoint.keep=0', 'checkpoint.keep_rollouts=true', 'evaluation.examples=40'];

interface Trained {
  readonly directory: string;
  readonly version: number;
}

async function train(): Promise<Trained> {
  const args = ['search-r1', '--preset', 'laptop', '--steps', String(STEPS), '-o', folder, '--plain', '--json'];
  const command = [join(ROOT, 'bin/vf-train.js'), ...args, ...SETTINGS.flatMap((setting) => ['--set', setting])];
  const { stdout } = await promisify(execFile)(process.execPath, command, { timeout: 120_000, maxBuffer: 2 ** 24 });
  return JSON.parse(stdout) as Trained;
}

interface Compared {
  readonly peft: string;
  readonly transformers: string;
  readonly torch: string;
  readonly versions: Readonly<Record<string, { readonly largest: number; readonly tokens: number; readonly rollouts: number }>>;
  readonly without_adapter: number;
  readonly merged: number;
}

describePeer('peft', { quick: false }, () => {
  it('agrees with the recorded log-probs of the base and of every version, merged or not', async () => {
    const { directory, version } = await train();
    expect(version).toBe(STEPS);
    for (const step of [1, 2, 3].map((number) => `step-00000${number}.jsonl`))
      writeFileSync(join(directory, 'rollouts', step), rolloutText(directory, step));
    const steps = [0, 1, 2].flatMap((sampler) => [String(sampler), `rollouts/step-00000${sampler + 1}.jsonl`]);
    const args = [directory, NANO, ...steps, String(STEPS), `evaluations/step-00000${STEPS}.jsonl`];
    const run = await runPeer<Compared>('peft', 'recorded_rollouts', args, { timeoutMs: 240_000 });
    const versions = Object.values(run.versions);
    expect(Object.keys(run.versions)).toEqual(['0', '1', '2', '3']);
    for (const { largest, tokens, rollouts } of versions) {
      expect([tokens > 500, rollouts > 50]).toEqual([true, true]);
      expect(largest).toBeLessThan(1e-4);
    }
    expect(run.merged).toBeLessThan(1e-4);
    // The comparison can fail: the adapter makes a difference.
    expect(run.without_adapter).toBeGreaterThan(0.1);
    const largest = Math.max(...versions.map((each) => each.largest), run.merged);
    const tokens = versions.reduce((sum, each) => sum + each.tokens, 0);
    resultLine(
      'peft',
      `${run.peft}, transformers ${run.transformers}, torch ${run.torch}`,
      'adapters of a vf-train run: recorded rollouts of four versions, the last one merged too',
      `${tokens} log-probs within ${largest.toExponential(1)}`,
    );
  });
});
