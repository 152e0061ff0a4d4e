/** The advantages of a training step: those that it recorded, or, before it was trained and in runs that recorded none, those that follow from its rewards alone. */
import { groupAdvantages } from '../trainer/credit/group-advantages.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { thrownText } from '../core/errors.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import type { RolloutCredit } from './credit-wire.ts';
import { openInside } from './files-inside.ts';
import { visitLines } from './line-reader.ts';
import { fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import type { OpenRun } from './open-run.ts';
import type { RolloutTable } from './rollout-table.ts';
import type { SetFile } from './rollout-sets.ts';

export interface StepAdvantages {
  /** The reason why all of them are null; null if they are known. */
  readonly problem: string | null;
  readonly of: (row: number) => RolloutCredit;
}

export const NO_CREDIT: RolloutCredit = { advantage: null, turn_advantages: null };

/** A refill plays further groups like the first ones; other phases belong to a source that rewards and groups by itself. */
const REFILL = /^step\/\d+\/refill-\d+$/;

export async function stepAdvantages(run: OpenRun, file: SetFile, table: RolloutTable): Promise<StepAdvantages> {
  const unknown = (problem: string) => ({ problem, of: () => NO_CREDIT });
  let config: TrainingConfig;
  try {
    config = await run.settings.config();
  } catch (error) {
    return unknown(`Advantages are not shown: config.toml cannot be used by this version (${thrownText(error).split('\n', 1)[0]}).`);
  }
  if (config.source !== null || (/\/.*\//.test(file.set.id) && !REFILL.test(file.set.id)))
    return unknown('Advantages are not shown: a source of its own pays and groups the rollouts of this run.');
  let recorded: ReadonlyMap<number, RolloutCredit> | null;
  try {
    recorded = await recordedAdvantages(file, table);
  } catch (error) {
    return unknown(`Advantages are not shown: ${thrownText(error)}`);
  }
  if (recorded !== null) return { problem: null, of: (row) => recorded.get(row) ?? NO_CREDIT };
  const problem = unknownCredit(config);
  if (problem !== null) return unknown(`Advantages are not shown before the step is trained: ${problem}.`);
  const known = advantagesOf(table, config);
  return { problem: null, of: (row) => ({ ...NO_CREDIT, advantage: known.get(row) ?? null }) };
}

/** By row; null if the step has not recorded them. */
async function recordedAdvantages({ advantages }: SetFile, table: RolloutTable): Promise<ReadonlyMap<number, RolloutCredit> | null> {
  if (advantages === null) return null;
  await using file = await openInside(advantages.directory, advantages.name);
  if (file === null) return null;
  const found = new Map<number, RolloutCredit>();
  const line = (bytes: Buffer, start: number, end: number) => {
    const { group_id: group, rollout_index: index, advantage, turn_advantages: turns } = fieldsOf(jsonOrNull(bytes.toString('utf8', start, end)));
    const row = table.find(textOf(group) ?? '', numberOf(index) ?? -1);
    if (row !== null) found.set(row, { advantage: numberOf(advantage), turn_advantages: Array.isArray(turns) ? listOf(turns).map(numberOf) : null });
  };
  await visitLines(file, { line }, advantages);
  return found;
}

/** The reason why the advantages of a step do not follow from its rewards alone; null if they do. */
function unknownCredit({ algorithm, rollouts }: TrainingConfig): string | null {
  if (algorithm.advantage.use !== 'outcome') return `this run has another credit, algorithm.advantage.use = "${algorithm.advantage.use}"`;
  if (algorithm.advantage.scope !== 'group') return `this run compares rewards by ${algorithm.advantage.scope}, beyond the rollouts of a row`;
  if (algorithm.kl.coefficient !== 0 && algorithm.kl.placement === 'reward') return 'its rewards contain a KL penalty';
  if (rollouts.staleGroups === 'weight' && rollouts.maxStaleness >= 2) return 'they are weighted by the age of a group';
  return null;
}

/** By row, as in `groupCredit`: failed rollouts leave their group, and a group of one gives none. */
function advantagesOf(table: RolloutTable, { algorithm, rollouts }: TrainingConfig): ReadonlyMap<number, number> {
  const sign = algorithm.negateAdvantages ? -1 : 1;
  const isMasked = (row: number) => rollouts.truncated === 'mask' && table.figures(row).isTruncated;
  const finished = [...table.rows].filter((row) => table.figures(row).reward !== null).toSorted((a, b) => table.index(a) - table.index(b));
  const all = new Map<number, number>();
  for (const members of Map.groupBy(finished, table.name('group')).values()) {
    if (members.length < 2) continue;
    const rewards = members.map((row) => table.figures(row).reward!);
    const { advantages, isConstant } = groupAdvantages(rewards, { ...algorithm.advantage, singleton: 'zero' });
    if (isConstant && algorithm.constantGroups === 'drop') continue;
    for (const [i, row] of members.entries()) if (!isMasked(row)) all.set(row, sign * advantages[i]! + 0);
  }
  return all;
}
