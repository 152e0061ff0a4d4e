/** A run without files trains the very adapter that vf-train writes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { SearchR1Env } from '../../environments/search-r1/environment.ts';
import { labData } from '../../scripts/lab/lab-data.ts';
import type { Environment } from '../../src/core/environment.ts';
import { CancelledError } from '../../src/core/errors.ts';
import { adapterFiles } from '../../src/engine/adapters/adapter-files.ts';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { type MemoryObserver, MemoryRun, type TrainedAdapter, type Values } from '../../src/lab/train-in-memory.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import type { LabData } from '../../web/lab/compute/lab-data.ts';
import { finished, TrainFolder } from '../vllm/train-process.ts';

const NANO = join(import.meta.dirname, '../../models/nano-base');
/** Two steps of 4 × 8 rollouts, 4 held-out questions before and after. */
const SETTINGS = {
  steps: 2,
  seed: 7,
  rollouts: { examples_per_step: 4 },
  evaluation: { every: 2, examples: 4, rollouts_per_example: 1 },
};
const FLAGS = ['--steps', '2', '--seed', '7', '-n', '4'];
const SETS = ['evaluation.every=2', 'evaluation.examples=4', 'evaluation.rollouts_per_example=1', 'policy.embedded.threads=2', 'checkpoint.every=2'];

const folder = new TrainFolder();
afterAll(() => folder[Symbol.dispose]());

const QUIET: MemoryObserver = { onTrained: () => {}, onEvaluated: () => {}, onReport: () => {} };

async function trained(observer: Partial<MemoryObserver>, signal: AbortSignal): Promise<TrainedAdapter> {
  const data = await labData(SETTINGS);
  const retriever = await openBm25(data.passages);
  const engine = await EmbeddedEngine.open({ modelPath: NANO, threads: 2, cacheTokens: 8192, signal });
  try {
    const open = (options: LabData['environment']) => new SearchR1Env({ ...options, retriever }) as unknown as Environment;
    const [environment, evaluation] = [open(data.environment), open(data.evaluation)];
    const run = await MemoryRun.open({ config: data.config, environment, evaluation, engine, observer: { ...QUIET, ...observer }, signal });
    await run.train();
    return run.adapter();
  } finally {
    await engine.close();
  }
}

describe('MemoryRun', () => {
  it('trains the same adapter as vf-train with the same seed and threads, to the bit', async () => {
    const run = folder.runInProcess(['search-r1', '--preset', 'laptop', '-o', '.', ...FLAGS, ...SETS.flatMap((set) => ['--set', set])], {
      PATH: '/nonexistent',
      VF_BASE_URL: '',
    });
    const { adapter: directory } = await finished<{ readonly adapter: string }>(run);
    const rows: Values[] = [];
    const adapter = await trained({ onTrained: (_, values) => rows.push(values) }, AbortSignal.timeout(60_000));
    const [, weights] = adapterFiles(adapter, 'models/nano-base');
    expect(Buffer.concat(weights!.parts).equals(readFileSync(join(directory, weights!.name)))).toBe(true);
    expect(adapter.version).toBe(2);
    expect(rows.map((row) => row['log_prob_difference_max'])).toEqual([0, 0]);
  });

  it('ends with CancelledError when its signal aborts within a step', async () => {
    const stop = new AbortController();
    const failure = trained({ onRollouts: ({ step, done }) => step === 1 && done > 4 && stop.abort() }, stop.signal);
    await expect(failure).rejects.toThrow(CancelledError);
  });
});
