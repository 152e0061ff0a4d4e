/** The advantages of a training step, computed again from its rewards as its credit assignment does. */
import { groupAdvantages } from '../trainer/credit/group-advantages.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { thrownText } from '../core/errors.ts';
import type { OpenRun } from './open-run.ts';
import type { RolloutTable } from './rollout-table.ts';
import type { RolloutSet } from './view-wire.ts';

export interface StepAdvantages {
  /** The reason why all of them are null; null if they are known. */
  readonly problem: string | null;
  readonly values: (table: RolloutTable, row: number) => number | null;
}

/** A refill plays further groups like the first ones; other phases belong to a source that rewards and groups by itself. */
const REFILL = /^step\/\d+\/refill-\d+$/;

export async function stepAdvantages(run: OpenRun, set: RolloutSet): Promise<StepAdvantages> {
  const unknown = (problem: string) => ({ problem, values: () => null });
  let config: TrainingConfig;
  try {
    config = await run.settings.config();
  } catch (error) {
    return unknown(`Advantages are not shown: config.toml cannot be used by this version (${thrownText(error).split('\n', 1)[0]}).`);
  }
  const problem = unknownCredit(config, set);
  if (problem !== null) return unknown(`Advantages are not shown: ${problem}.`);
  const known = new Map<RolloutTable, ReadonlyMap<number, number>>();
  return {
    problem: null,
    values: (table, row) => {
      let advantages = known.get(table);
      if (advantages === undefined) known.set(table, (advantages = advantagesOf(table, config)));
      return advantages.get(row) ?? null;
    },
  };
}

/** The reason why the advantages of a step do not follow from its rewards alone; null if they do. */
function unknownCredit({ algorithm, rollouts, source }: TrainingConfig, set: RolloutSet): string | null {
  if (algorithm.advantage.use !== 'outcome') return `this run has another credit, algorithm.advantage.use = "${algorithm.advantage.use}"`;
  if (algorithm.advantage.scope !== 'group') return `this run compares rewards by ${algorithm.advantage.scope}, beyond the rollouts of a row`;
  if (algorithm.kl.coefficient !== 0 && algorithm.kl.placement === 'reward') return 'its rewards contain a KL penalty, which is not recorded';
  if (rollouts.staleGroups === 'weight' && rollouts.maxStaleness >= 2) return 'they are weighted by the age of a group, which is not recorded';
  if (source !== null || (/\/.*\//.test(set.id) && !REFILL.test(set.id))) return 'a source of its own pays and groups the rollouts of this run';
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
