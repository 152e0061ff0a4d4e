/** Measures how deep JSON is nested. Recursive code, such as JSON.stringify, exhausts the stack on values that JSON.parse reads. */

/** Far more than any argument needs, but far fewer than would exhaust the stack of recursive code. */
export const MOST_LEVELS = 64;

/** True if lists and objects are nested more than `most` levels deep. Not recursive, so that hostile JSON cannot exhaust the stack. */
export function isDeeperThan(value: unknown, most: number): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > most) return true;
    level = level.flatMap((item) => Object.values(item).filter(isContainer));
  }
  return false;
}

/** True if a key is named `__proto__`, at any level: copies of the value would lose it without a word. For values that are not too deep. */
export function namesPrototype(value: unknown): boolean {
  return isContainer(value) && (Object.hasOwn(value, '__proto__') || Object.values(value).some(namesPrototype));
}

/** Names the first key whose value is nested too deeply; null if all can be used. */
export function nestingProblem(fields: Readonly<Record<string, unknown>>): string | null {
  const key = Object.keys(fields).find((name) => isDeeperThan(fields[name], MOST_LEVELS));
  return key === undefined ? null : `${JSON.stringify(key.slice(0, 100))} is nested more than ${MOST_LEVELS} levels deep; give flatter rows`;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
