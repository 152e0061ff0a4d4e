/**
 * The parts of rollouts that are compared with each other. A rollout is one part, whatever its number of branches, unless its branches have roles or rewards of their own: then
 * each branch is a part of the population of its role. The parts of a rollout in a population share the weight of one rollout, so that it counts once there.
 */
import type { Advantage, CreditRollout } from '../credit.ts';
import type { Trajectory } from '../trajectory.ts';

export interface CreditPart extends Pick<CreditRollout, 'reward' | 'penalties' | 'tokens'> {
  readonly rollout: CreditRollout;
  readonly trajectory: Pick<Trajectory, 'role' | 'task' | 'groupId' | 'isTruncated'>;
  /** Its first token among the M of the rollout. */
  readonly start: number;
  /** Its weight among rollouts, above 0, at most 1; those of a rollout in one population add up to 1. */
  readonly share: number;
}

/** The populations by their keys, in the order of their first parts. @param isSplit which rollouts are taken apart into their branches */
export function populations(
  rollouts: readonly CreditRollout[],
  isSplit: (rollout: CreditRollout) => boolean,
  keyOf: (of: CreditPart['trajectory']) => string,
): ReadonlyMap<string, readonly CreditPart[]> {
  const found = new Map<string, CreditPart[]>();
  for (const rollout of rollouts) {
    const own = Map.groupBy(isSplit(rollout) ? branchParts(rollout) : [wholePart(rollout)], ({ trajectory }) => keyOf(trajectory));
    for (const [key, parts] of own) {
      const share = 1 / parts.length;
      found.set(key, [...(found.get(key) ?? []), ...parts.map((part) => ({ ...part, share }))]);
    }
  }
  return found;
}

type UnsharedPart = Omit<CreditPart, 'share'>;

function wholePart(rollout: CreditRollout): UnsharedPart {
  const { trajectory, reward, penalties, tokens } = rollout;
  return { rollout, trajectory, reward, penalties, tokens, start: 0 };
}

function branchParts(rollout: CreditRollout): readonly UnsharedPart[] {
  const { task, groupId, isTruncated } = rollout.trajectory;
  return rollout.branches.map(({ role, reward, start, end }) => ({
    rollout,
    trajectory: { role, task, groupId, isTruncated },
    reward,
    penalties: rollout.penalties?.subarray(start, end) ?? null,
    tokens: end - start,
    start,
  }));
}

/** Number of rollouts that a population has a part of. */
export function rolloutsIn(parts: readonly CreditPart[]): number {
  return new Set(parts.map(({ rollout }) => rollout)).size;
}

/** What was found for parts, as advantages of their rollouts. A token in no credited part is left out: its advantage is NaN. */
export class PartAdvantages {
  readonly #found = new Map<CreditRollout, Advantage>();

  set({ rollout, start, tokens }: CreditPart, advantage: number | Float64Array): void {
    if (rollout.trajectory.branches === undefined) this.#found.set(rollout, advantage);
    else {
      const known = this.#found.get(rollout);
      const all = known instanceof Float64Array ? known : new Float64Array(rollout.tokens).fill(NaN);
      this.#found.set(rollout, all);
      if (typeof advantage === 'number') all.fill(advantage, start, start + tokens);
      else all.set(advantage, start);
    }
  }

  /** Null for a rollout without a credited part. */
  of(rollout: CreditRollout): Advantage {
    return this.#found.get(rollout) ?? null;
  }
}
