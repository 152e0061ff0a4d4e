/**
 * Set for a command that `vf-rounds run` started. Such a command does not print how to continue it, because that would continue this step alone; `vf-rounds run`
 * prints its own command.
 */
export const UNDER_ROUNDS = 'VF_UNDER_ROUNDS';

export function isUnderRounds(): boolean {
  return (process.env[UNDER_ROUNDS] ?? '') !== '';
}
