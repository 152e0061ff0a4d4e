/** An evaluation as the page shows it: its line in the list, and its figures with intervals. */
import { join } from 'node:path';
import { type Figures, figures } from '../evaluate/summary.ts';
import { readMetadata } from '../evaluate/run-records.ts';
import { hasLivingWriter } from '../files/run-lock.ts';
import type { WireMetadata } from '../schemas/results.ts';
import { snakeKeys } from '../schemas/key-case.ts';
import type { RolloutIndex } from './rollout-index.ts';
import type { RunLine } from './view-wire.ts';

export async function evaluationLine(id: string, directory: string): Promise<RunLine> {
  const metadata = await readMetadata(directory);
  const done = metadata.num_finished + metadata.num_errored;
  return {
    id,
    kind: 'evaluation',
    environment: metadata.env_id,
    model: metadata.model,
    started_at: metadata.started_at,
    updated_at: metadata.updated_at,
    state: metadata.complete ? 'complete' : (await hasLivingWriter(directory)) ? 'running' : 'stopped',
    done,
    planned: metadata.num_planned,
    // The interval needs every rollout, so the list does without.
    reward: metadata.avg_reward === null ? null : { value: metadata.avg_reward, low: null, high: null, n: metadata.num_finished },
    curve: [],
    problem: null,
  };
}

/** The object of `vf-eval --json` as far as recorded rollouts say it, in snake_case; null where nothing is recorded. */
export function evaluationSummary(directory: string, metadata: WireMetadata, index: RolloutIndex): Readonly<Record<string, unknown>> | null {
  const rollouts = index.facts();
  if (rollouts.length === 0) return null;
  const found: Figures = figures(rollouts, { planned: metadata.num_planned, rolloutsPerExample: metadata.rollouts_per_example });
  const summary = {
    env_id: metadata.env_id,
    model: metadata.model,
    policy_kind: metadata.policy.kind,
    directory: join(directory),
    ...(snakeKeys(found, ['metrics', 'tasks', 'stopConditions', 'errors', 'errorReasons', 'errorExamples', 'passAtK', 'passAllK']) as object),
    wall_seconds: metadata.time,
    rollouts_per_second: metadata.time > 0 ? rollouts.length / metadata.time : null,
    ...(metadata.roles === undefined ? {} : { roles: metadata.roles }),
  };
  return summary;
}

export function evaluationFacts(metadata: WireMetadata): { name: string; value: string }[] {
  const sampling = metadata.sampling_args;
  const facts: [string, string | number | null | undefined][] = [
    ['environment', metadata.env_id],
    ['arguments', Object.keys(metadata.env_args).length === 0 ? null : JSON.stringify(metadata.env_args)],
    ['model', metadata.model],
    ['server', metadata.base_url],
    ['rows × rollouts', `${metadata.num_examples} × ${metadata.rollouts_per_example}`],
    ['temperature', sampling?.temperature],
    ['top_p', sampling?.top_p],
    ['max tokens', sampling?.max_tokens],
    ['seed', metadata.seed],
    ['concurrent rollouts', metadata.max_concurrent],
    ['started', metadata.started_at],
    ['seconds', metadata.time.toFixed(1)],
    ['vf-search', metadata.version_info.vf_version],
  ];
  return facts.flatMap(([name, value]) => (value === undefined || value === null ? [] : [{ name, value: String(value) }]));
}
