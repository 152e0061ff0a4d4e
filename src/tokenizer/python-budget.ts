/** Bounds the work of one rendering, so that the template of a downloaded model or pipeline cannot hold the process up or fill its memory. Jinja itself has no such bounds. */
import { countText } from '../core/count-text.ts';

/** Evaluated expressions and their texts, rounds of loops, compared and copied items. A chat of 10,000 messages takes about a fifth. */
const MOST_STEPS = 5_000_000;
/** In UTF-16 units. */
const LONGEST_TEXT = 2 ** 24;
/** A filter or method that reads so many UTF-16 units takes about as long as another step. */
const UNITS_OF_STEP = 64;

let left = MOST_STEPS;

/** Begins a rendering; one at a time, because rendering never waits. */
export function renewBudget(): void {
  left = MOST_STEPS;
}

/** Throws once a rendering has taken too many steps. */
export function spend(steps = 1): void {
  left -= steps;
  if (left < 0) throw new Error(`the template takes more than ${countText(MOST_STEPS)} steps; shorten its loops and texts`);
}

/** Throws for a text that no prompt holds, and once a rendering has made too many long ones. */
export function spendText(length: number): void {
  if (length > LONGEST_TEXT) throw new Error(`the template makes a text of more than ${countText(LONGEST_TEXT)} characters`);
  spend(length / UNITS_OF_STEP);
}
