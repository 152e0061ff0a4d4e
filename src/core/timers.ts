/** The longest that a timer of Node waits, in milliseconds: 24.8 days. One that is set for longer fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
