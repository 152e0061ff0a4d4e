import { ConfigError } from '../../core/errors.ts';
import { readRollouts } from '../../evaluate/read-rollouts.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';

/** Number of full steps that a file of rollouts fills. Throws ConfigError for a line that does not hold a rollout, and for a file that does not fill a step. */
export async function stepsOfRollouts(path: string, { rolloutsPerExample, examplesPerStep }: TrainingConfig['rollouts']): Promise<number> {
  const sizes = new Map<string, number>();
  for await (const { group_id: group } of readRollouts(path)) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  // A group with more than rollouts_per_example rollouts counts as several.
  const groups = [...sizes.values()].reduce((sum, size) => sum + Math.ceil(size / rolloutsPerExample), 0);
  const steps = Math.floor(groups / examplesPerStep);
  if (steps > 0) return steps;
  throw new ConfigError(`${path} has ${groups} groups of rollouts, but rollouts.examples_per_step is ${examplesPerStep}; lower it (-n)`);
}
