/** The steps that data fills: demonstrations, or rollouts of a file. */
import { ConfigError } from '../../core/errors.ts';
import { readRollouts } from '../../evaluate/read-rollouts.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { ResolvedConfig } from '../../trainer/config/resolve-config.ts';
import { readDemonstrations } from '../../trainer/sources/read-demonstrations.ts';

/**
 * Fills in the number of supervised steps: passes over the rows that are not held out. Throws ConfigError for a row that cannot be read.
 * @param laterRows absolute path of rows that do not exist yet; with them, the number stays open
 */
export async function withSupervisedSteps(resolved: ResolvedConfig, laterRows?: string): Promise<ResolvedConfig> {
  const { config, wire } = resolved;
  const { sft, seed } = config;
  if (sft.data === null) return resolved;
  const files = [sft.data].flat();
  if (laterRows !== undefined && files.includes(laterRows)) {
    const others = [...files.filter((file) => file !== laterRows), ...(sft.validation === null ? [] : [sft.validation])];
    if (others.length > 0) await readDemonstrations({ sft: { ...sft, data: others, validation: null, heldOut: 0 }, seed });
    return resolved;
  }
  if (sft.steps !== null) return resolved;
  const { training } = await readDemonstrations(config);
  const steps = Math.ceil((sft.epochs * training.length) / sft.batchSize);
  return { ...resolved, config: { ...config, sft: { ...sft, steps } }, wire: { ...wire, sft: { ...wire.sft, steps } } };
}

/** Throws ConfigError unless the first line of a file holds a rollout. */
export async function checkRollouts(path: string): Promise<void> {
  const rollouts = readRollouts(path);
  const { done } = await rollouts.next();
  await rollouts.return();
  if (done === true) throw new ConfigError(`${path} has no rollouts; vf-export writes them`);
}

/** Number of full steps that a file of rollouts fills. Throws ConfigError for a line that does not hold a rollout, and for a file that does not fill a step. */
export async function stepsOfRollouts(path: string, { rolloutsPerExample, examplesPerStep }: TrainingConfig['rollouts']): Promise<number> {
  const sizes = new Map<string, number>();
  for await (const { group_id: group } of readRollouts(path)) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  // A group with more than rollouts_per_example rollouts counts as several.
  const groups = [...sizes.values()].reduce((sum, size) => sum + Math.ceil(size / rolloutsPerExample), 0);
  const steps = Math.floor(groups / examplesPerStep);
  if (steps > 0) return steps;
  throw new ConfigError(`${path} has ${plural(groups, 'group')} of rollouts, but a step takes ${examplesPerStep}; lower rollouts.examples_per_step`);
}
