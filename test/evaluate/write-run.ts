/** Writes rollouts as a run of vf-eval records them. */
import { mkdir } from 'node:fs/promises';
import type { EvaluationOptions } from '../../src/evaluate/evaluation-options.ts';
import { redactionOf } from '../../src/evaluate/redaction.ts';
import { RunWriter } from '../../src/evaluate/run-writer.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';

export async function writeRun(options: EvaluationOptions, rollouts: readonly Rollout[]): Promise<void> {
  await mkdir(options.outputDir, { recursive: true });
  const plan = { rows: [...options.environment.eval], kept: [], sessions: [], startedAt: new Date().toISOString() };
  const writer = await RunWriter.open(options, plan, redactionOf(options.secrets));
  for (const rollout of rollouts) writer.record(rollout);
  await writer.saveMetadata();
  await writer.close();
}
