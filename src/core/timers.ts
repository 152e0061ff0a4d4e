/** The longest time for the clean-up of an episode, in milliseconds. */
export const CLEAN_UP_MS = 10_000;

/** The longest delay of a Node timer, in milliseconds: 24.8 days. A longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The delay for a timer that should fire after `ms` milliseconds, or never for Infinity: as long as Node can wait. */
export function timerMs(ms: number): number {
  return Math.min(Math.max(0, ms), LONGEST_TIMER_MS);
}
