import { isDeeperThan } from './nesting.ts';

/** Recursive code, such as JSON.stringify, reads ten times as many levels. */
export const MOST_PARSED_LEVELS = 512;

/** The value of a JSON text; null if it is not JSON, or is nested so deeply that recursive code would exhaust the stack. */
export function jsonOrNull(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return text.length > MOST_PARSED_LEVELS && isDeeperThan(value, MOST_PARSED_LEVELS) ? null : value;
  } catch {
    return null;
  }
}
