/** The groups of a training step, with the advantages that its credit gives them. */
import { isCompleteFile } from '../trainer/records/step-file.ts';
import type { SetReader } from './set-reader.ts';
import { advantagesOf } from './training-view.ts';
import type { StepDetail, StepGroup } from './view-wire.ts';

export interface StepContext {
  /** Of all phases of the step. */
  readonly readers: readonly SetReader[];
  readonly steps: readonly number[];
  /** What config.toml says. */
  readonly table: Readonly<Record<string, unknown>>;
}

export async function stepDetail(step: number, { readers, steps, table }: StepContext): Promise<StepDetail> {
  const credit = advantagesOf(table);
  const groups: StepGroup[] = [];
  let complete = true;
  for (const reader of readers) {
    await reader.index.refresh();
    complete &&= await isCompleteFile(reader.set.path, step);
    const lines = await reader.lines(reader.index.query());
    for (const [group, members] of Map.groupBy(lines, (line) => line.group)) {
      const rollouts = members.toSorted((a, b) => a.index - b.index);
      const advantages = 'of' in credit ? credit.of(rollouts) : new Map<number, number>();
      groups.push({
        set: reader.set.id,
        group,
        question: rollouts[0]!.question,
        rollouts: rollouts.map((line) => ({ ...line, advantage: advantages.get(line.index) ?? null })),
      });
    }
  }
  return {
    step,
    steps: [...new Set(steps)].toSorted((a, b) => a - b),
    groups,
    complete,
    advantages_problem: 'problem' in credit ? credit.problem : null,
  };
}
