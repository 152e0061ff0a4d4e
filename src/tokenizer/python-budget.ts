/**
 * Bounds the work of one rendering, so that the template of a downloaded model or pipeline cannot hold the process up or fill its memory. Jinja itself has no such bounds. The
 * bound grows with what is rendered: a template that loops without need is refused at once for a short chat, and a chat of 10,000 messages has room.
 */
import { countText } from '../core/count-text.ts';

/** Evaluated expressions and their texts, rounds of loops, compared and copied items. A step takes at most about 1 µs, so that these take a quarter of a second. */
const LEAST_STEPS = 250_000;
const MOST_STEPS = 5_000_000;
/** For each value of the variables and each UNITS_OF_STEP units of their texts. Published templates take at most 32. */
const STEPS_OF_VALUE = 200;
/** In UTF-16 units. */
const LONGEST_TEXT = 2 ** 24;
/** A filter or method that reads so many UTF-16 units takes about as long as another step. */
const UNITS_OF_STEP = 16;

/** The template takes more work than its variables call for. */
export class OverBudget extends Error {
  /** The variables were so few that no others will do. */
  readonly isForAny: boolean;

  constructor(message: string, options: { readonly isForAny: boolean }) {
    super(message);
    this.isForAny = options.isForAny;
  }
}

let steps = LEAST_STEPS;
let left = steps;

/** Begins a rendering of these variables; one at a time, because rendering never waits. */
export function renewBudget(variables: object): void {
  steps = Math.min(MOST_STEPS, LEAST_STEPS + STEPS_OF_VALUE * sizeOf(variables, MOST_STEPS / STEPS_OF_VALUE));
  left = steps;
}

/** Throws once a rendering has taken too many steps. */
export function spend(count = 1): void {
  left -= count;
  if (left >= 0) return;
  const isForAny = steps < 2 * LEAST_STEPS;
  throw new OverBudget(`the template takes more than ${countText(steps)} steps; shorten its loops and texts`, { isForAny });
}

/** Throws for a text that no prompt holds, and once a rendering has made too many long ones. */
export function spendText(length: number): void {
  if (length > LONGEST_TEXT) throw new Error(`the template makes a text of more than ${countText(LONGEST_TEXT)} characters`);
  spend(length / UNITS_OF_STEP);
}

/** The number of values, at any depth, and the length of their texts in steps; not counted beyond `most`. */
function sizeOf(variables: object, most: number): number {
  const open: unknown[] = [variables];
  let size = 0;
  while (open.length > 0 && size < most) {
    const value = open.pop();
    size += typeof value === 'string' ? 1 + value.length / UNITS_OF_STEP : 1;
    if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) open.push(inner);
  }
  return size;
}
