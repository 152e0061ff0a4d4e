import type { Advantage, CreditAssignment, CreditBatch } from '../credit.ts';

/** The numbers of an advantage; null for a turn that is left out. */
export function valuesOf(advantage: Advantage): readonly (number | null)[] {
  return advantage === null ? [] : typeof advantage === 'number' ? [advantage] : [...advantage];
}

/** Leaves out groups whose advantages are all 0 if the run drops them, and counts those whose rewards are equal, too. */
export function withConstantGroups(assigned: CreditAssignment, { groups }: CreditBatch, constantGroups: 'keep' | 'drop'): CreditAssignment {
  const isConstant = assigned.advantages.map((group) =>
    group.every((advantage) => valuesOf(advantage).every((value) => value === 0 || value === null)),
  );
  const isEqual = groups.map((members) => members.every(({ reward }) => reward === members[0]!.reward));
  return {
    ...assigned,
    advantages: assigned.advantages.map((group, g) => (isConstant[g] && constantGroups === 'drop' ? group.map(() => null) : group)),
    values: { groups_constant: isConstant.filter((isIt, g) => isIt && isEqual[g]).length, groups_too_small: 0, ...assigned.values },
  };
}
