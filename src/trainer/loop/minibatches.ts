/** Decides which groups of a batch share an optimiser step. */
import type { CreditedBatch, TrainingSequence } from '../credit.ts';

type Group = CreditedBatch['groups'][number];

/**
 * Splits whole groups as evenly as possible; there are at most as many minibatches as groups. A source gives the rollouts of one role and task after those of
 * another, so each of them is spread over the minibatches, in the order of the batch: otherwise the first update would see only some roles, and the old log-probs of
 * others would always be off policy. Demonstrations are split by themselves, so that every minibatch has its share of them. If there are rollouts, they get no
 * minibatch of their own: Adam would undo the weight of their loss there.
 */
export function intoMinibatches(groups: CreditedBatch['groups'], wanted: number): TrainingSequence[][] {
  const isShown = ([first]: Group) => first?.isDemonstration ?? false;
  const played = groups.filter((group) => !isShown(group));
  const count = groups.length === 0 ? 0 : Math.min(wanted, Math.max(1, played.length));
  const parts = [count > 1 ? spread(played) : played, groups.filter(isShown)];
  const part = <T>(items: readonly T[], i: number) =>
    items.slice(Math.floor((i * items.length) / count), Math.floor(((i + 1) * items.length) / count));
  return Array.from({ length: count }, (_, i) => parts.flatMap((each) => part(each, i).flat()));
}

/** Mixes roles and tasks, so that every stretch has about its share of each. A single one keeps its order. */
function spread(groups: readonly Group[]): readonly Group[] {
  const kinds = [...Map.groupBy(groups, ([first]) => JSON.stringify([first?.trajectory.role, first?.trajectory.task])).values()];
  return kinds
    .flatMap((kind) => kind.map((group, i) => ({ group, place: (i + 0.5) / kind.length })))
    .toSorted((a, b) => a.place - b.place)
    .map(({ group }) => group);
}
