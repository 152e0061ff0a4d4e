/** Bounds the work of one rendering, so that the template of a downloaded model cannot hold the process up or fill its memory. Jinja itself has no such bounds. */

/** Evaluated expressions, rounds of loops, compared and copied items. A chat of 10,000 messages takes about a fifth. */
const MOST_STEPS = 5_000_000;
/** In UTF-16 units. */
const LONGEST_TEXT = 2 ** 24;

let left = MOST_STEPS;

/** Begins a rendering; one at a time, because rendering never waits. */
export function renewBudget(): void {
  left = MOST_STEPS;
}

/** Throws once a rendering has taken too many steps. */
export function spend(steps = 1): void {
  left -= steps;
  if (left < 0) throw new Error(`the template takes more than ${MOST_STEPS} steps`);
}

/** Throws for a text that no prompt holds. */
export function assertLength(length: number): void {
  if (length > LONGEST_TEXT) throw new Error(`the template makes a text of more than ${LONGEST_TEXT} characters`);
}
