import type { Advantage, CreditAssignment } from '../credit.ts';

/** The numbers of an advantage; null for a turn that is left out. */
export function valuesOf(advantage: Advantage): readonly (number | null)[] {
  return advantage === null ? [] : typeof advantage === 'number' ? [advantage] : [...advantage];
}

/** Counts the groups whose advantages are all 0, and leaves them out if the run drops them. */
export function withConstantGroups(assigned: CreditAssignment, constantGroups: 'keep' | 'drop'): CreditAssignment {
  const isConstant = assigned.advantages.map((group) =>
    group.every((advantage) => valuesOf(advantage).every((value) => value === 0 || value === null)),
  );
  return {
    ...assigned,
    advantages: assigned.advantages.map((group, g) => (isConstant[g] && constantGroups === 'drop' ? group.map(() => null) : group)),
    values: { groups_constant: isConstant.filter(Boolean).length, groups_too_small: 0, ...assigned.values },
  };
}
