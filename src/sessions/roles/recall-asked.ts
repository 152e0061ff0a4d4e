import type { TrainingConfig } from '../../schemas/training-config.ts';
import { supervisedSteps } from '../../trainer/config/training-schedule.ts';
import { readAsked } from '../../trainer/records/step-asked.ts';
import type { TrainingDirectory } from '../../trainer/records/training-directory.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { OpenedRoles } from './open-roles.ts';

/** Counts the role calls of the run's earlier processes. Returns a notice if some of their records were deleted. */
export async function recallAsked(
  { paths }: TrainingDirectory,
  { roles: { models }, config }: { readonly roles: OpenedRoles; readonly config: TrainingConfig },
): Promise<string[]> {
  const steps = await readAsked(paths.rollouts, (asked) => models.recall(asked));
  await readAsked(paths.evaluations, (asked) => models.recall(asked));
  // Supervised steps, which come first, play no rollouts.
  const missing = Math.max(0, ...steps) - supervisedSteps(config) - steps.length;
  if (missing <= 0) return [];
  return [
    `The statistics of roles do not include ${plural(missing, 'old step')}, whose rollouts were deleted (checkpoint.keep_rollouts, checkpoint.max_rollouts_gb).`,
  ];
}
