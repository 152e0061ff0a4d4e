/** The longest delay of a Node timer, in milliseconds: 24.8 days. A longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
