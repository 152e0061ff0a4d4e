/**
 * The advantages with which a step trained, for people: `step-000012_advantages.jsonl` next to the step's rollouts, a line for each rollout that had a part in it. It is
 * written as a whole once the step is trained, again after a resume, and deleted before another rollout of the step is written.
 */
import { replaceFile } from '../../files/json-lines.ts';
import type { WireAdvantage } from '../../schemas/training-records.ts';
import type { CreditedBatch, TrainingSequence } from '../credit.ts';
import { tokenPlaces, turnsOf } from '../credit/rollout-turns.ts';

/** @param name of any file of the step: as it was written, compressed or thinned */
export function advantagesPath(name: string): string {
  return name.replace(/(step-\d+)[^/\\]*?\.jsonl(?:\.thin)?((?:\.gz)?)$/, '$1_advantages.jsonl$2');
}

export async function writeAdvantages(path: string, { groups }: Pick<CreditedBatch, 'groups'>): Promise<void> {
  const lines = groups.flat().flatMap((sequence) => (sequence.isDemonstration || sequence.targets.length === 0 ? [] : [advantageLine(sequence)]));
  await replaceFile(path, (write) => write(Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))));
}

function advantageLine(sequence: TrainingSequence): WireAdvantage {
  const { trajectory, advantages } = sequence;
  const byTurn: number[][] = turnsOf(trajectory).map(() => []);
  for (const [t, { turn }] of tokenPlaces(sequence).entries()) byTurn[turn]!.push(advantages[t]!);
  const turns = byTurn.map(meanOf);
  const isEqual = turns.every((advantage) => advantage === turns[0]);
  return {
    rollout_id: trajectory.rolloutId,
    group_id: trajectory.groupId,
    rollout_index: trajectory.index,
    advantage: meanOf(advantages)!,
    ...(isEqual ? {} : { turn_advantages: turns }),
  };
}

/** Equal values have no rounding error. */
function meanOf(values: ArrayLike<number>): number | null {
  if (values.length === 0) return null;
  const all = Array.from(values);
  return (all.every((value) => value === all[0]) ? all[0]! : all.reduce((sum, value) => sum + value, 0) / all.length) + 0;
}
