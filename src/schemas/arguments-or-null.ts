import { jsonOrNull } from './json-or-null.ts';
import { isDeeperThan } from './nesting.ts';

/** An agent sends a call back inside the body of a request, of which `MOST_LEVELS` are read. */
export const MOST_ARGUMENT_LEVELS = 48;

/** The arguments of a call from their JSON text; null if it is not JSON, or is nested more than 48 levels deep, because code that copies or orders it is recursive. */
export function argumentsOrNull(text: string): unknown {
  const value = jsonOrNull(text);
  return text.length > MOST_ARGUMENT_LEVELS && isDeeperThan(value, MOST_ARGUMENT_LEVELS) ? null : value;
}
