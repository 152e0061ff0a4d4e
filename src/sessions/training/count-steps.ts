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
  const steps = Math.ceil(sft.epochs * Math.ceil(training.length / sft.batchSize));
  return { ...resolved, config: { ...config, sft: { ...sft, steps } }, wire: { ...wire, sft: { ...wire.sft, steps } } };
}

/** Throws ConfigError unless the first line of a file holds a rollout. */
export async function checkRollouts(path: string): Promise<void> {
  const rollouts = readRollouts(path);
  const { done } = await rollouts.next();
  await rollouts.return();
  if (done === true) throw new ConfigError(`${path} has no rollouts; vf-export writes them`);
}

/**
 * Number of full steps that a file of rollouts fills, without those of more than `longest` tokens. Throws ConfigError for a line that does not hold a rollout, and for a
 * file that does not fill a step.
 */
export async function stepsOfRollouts(
  path: string,
  { rolloutsPerExample, examplesPerStep }: TrainingConfig['rollouts'],
  longest = Infinity,
): Promise<number> {
  // A group with more than rollouts_per_example rollouts counts as several.
  const open = new Map<string, { seen: number; fitting: number }>();
  let [groups, leftOut] = [0, 0];
  for await (const { group_id: name, token_ids: ids } of readRollouts(path)) {
    const group = open.get(name) ?? { seen: 0, fitting: 0 };
    open.set(name, group);
    if (ids.length <= longest) group.fitting++;
    else leftOut++;
    if (++group.seen < rolloutsPerExample) continue;
    open.delete(name);
    if (group.fitting > 0) groups++;
  }
  groups += [...open.values()].filter(({ fitting }) => fitting > 0).length;
  const steps = Math.floor(groups / examplesPerStep);
  if (steps > 0) return steps;
  if (leftOut > 0 && groups === 0)
    throw new ConfigError(`Every rollout of ${path} is longer than the model's window, ${plural(longest, 'token')}; give shorter ones`);
  const without = leftOut === 0 ? '' : ` (without ${plural(leftOut, 'rollout')} longer than the model's window, ${plural(longest, 'token')})`;
  throw new ConfigError(
    `${path} has ${plural(groups, 'group')} of rollouts${without}, but a step takes ${examplesPerStep}; lower rollouts.examples_per_step`,
  );
}
