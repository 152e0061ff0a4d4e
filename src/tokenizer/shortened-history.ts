/**
 * The messages before a turn that a chat template reads in order to write what comes after it. Templates look at the first messages, at the neighbours of the turn, at the last message of
 * a role and at the order of roles, so the middle of a long conversation can be left out, and a turn late in it costs no more than an early one.
 */
import type { Message, Role } from '../core/message.ts';

/** Messages at the beginning and at the end that are always there. */
const FIRST = 4;
const LAST = 6;
/** Histories up to here are rendered whole. */
const SHORT = 16;
const ROLES: readonly Role[] = ['system', 'user', 'assistant', 'tool'];

/** The history itself if it is short or no part of it can be left out. */
export function shortenedHistory(history: readonly Message[]): readonly Message[] {
  if (history.length <= SHORT) return history;
  const end = history.length - LAST;
  const lastOfRoles = ROLES.map((role) => history.findLastIndex((message) => message.role === role)).filter((at) => at < end);
  const kept = history.slice(0, FIRST);
  let from = FIRST;
  for (const start of [...lastOfRoles, end].toSorted((a, b) => a - b)) {
    if (start <= from) continue;
    kept.push(history[from]!, ...history.slice(afterGap(history, from + 1, start), start));
    from = start;
  }
  return [...kept, ...history.slice(from)];
}

/**
 * The largest index up to `end` whose message can follow the one before `start`: the roles meet as they do at `start`, and an even number of messages is left out, because some
 * templates check that every second one is a question. `start` if there is none.
 */
function afterGap(history: readonly Message[], start: number, end: number): number {
  for (let at = end; at > start; at--)
    if ((at - start) % 2 === 0 && history[at - 1]!.role === history[start - 1]!.role && history[at]!.role === history[start]!.role) return at;
  return start;
}

/**
 * True if the history has doubled in length since the turn before, counted in powers of two from the first that is not short. There, what a template writes after the short history is
 * compared with what it writes after the whole one.
 */
export function isMilestone(history: readonly Message[]): boolean {
  const before = history.findLastIndex(({ role }) => role === 'assistant');
  return history.length > SHORT && Math.floor(Math.log2(history.length - 1)) > Math.floor(Math.log2(Math.max(1, before) - 1));
}
