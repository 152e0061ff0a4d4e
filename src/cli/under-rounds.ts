/** Set for a command that `vf-rounds run` started. How it is continued is then said by `vf-rounds run`, because it would go on with this step alone. */
export const UNDER_ROUNDS = 'VF_UNDER_ROUNDS';

export function isUnderRounds(): boolean {
  return (process.env[UNDER_ROUNDS] ?? '') !== '';
}
