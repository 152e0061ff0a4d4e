/** The rollouts of a plan, and those of them that are on file. */
import type { Row } from '../../core/dataset.ts';
import type { Trajectory } from '../trajectory.ts';
import type { RolloutStore, StepRollouts } from '../trajectory-source.ts';

/** The part of a plan that determines its rollouts. */
export interface RolloutPlan {
  readonly step: number;
  /** @default the step's only phase */
  readonly phase?: string;
  readonly rows: readonly Row[];
  readonly rolloutsPerExample: number;
  readonly store: Pick<RolloutStore, 'open' | 'discard'>;
}

/** The rollouts of the plan's step; null unless it is complete and has all of them. Creates an empty file if the step has none. */
export async function recordedRollouts(plan: RolloutPlan): Promise<readonly Trajectory[] | null> {
  await using record = await plan.store.open(plan.step, plan.phase);
  return hasAll(record, plan) ? record.recorded : null;
}

/** Opens the recorded rollouts; discards them if the step is complete for another plan, such as an evaluation with fewer rows. */
export async function openRecord(plan: RolloutPlan): Promise<StepRollouts> {
  const { store, step, phase } = plan;
  const record = await store.open(step, phase);
  if (!record.isComplete || hasAll(record, plan)) return record;
  await record[Symbol.asyncDispose]();
  await store.discard(step, phase);
  return store.open(step, phase);
}

function hasAll({ isComplete, recorded }: StepRollouts, plan: RolloutPlan): boolean {
  const found = new Set(recorded.map(({ rolloutId }) => rolloutId));
  return isComplete && plannedIds(plan).every((id) => found.has(id));
}

export function plannedIds({ rows, rolloutsPerExample }: RolloutPlan): string[] {
  return rows.flatMap((row) => Array.from({ length: rolloutsPerExample }, (_, index) => `${row.exampleId}/${index}`));
}
