import { closestName, suggestion } from './closest-name.ts';
import { ConfigError } from './errors.ts';

/** What the first key that nothing reads is called, of an object that a hook returned; null if every key is known. Without it, a slip would be lost without a word. */
export function unknownKeyProblem(given: object, known: readonly string[]): string | null {
  const key = Object.entries(given).find(([name, value]) => value !== undefined && !known.includes(name))?.[0];
  return key === undefined ? null : `the key ${JSON.stringify(key)}${suggestion(key, known)}. It may return ${known.join(', ')}`;
}

/**
 * TypeScript runs without its compiler, so a misspelled option would silently leave the default. A subclass may pass options of its own, so only a
 * name with one wrong letter is refused.
 */
export function checkSpelling(id: string, given: object, known: readonly string[]): void {
  for (const name of Object.keys(given)) {
    const meant = known.includes(name) ? null : closestName(name, known, 1);
    // The subclass may declare it as an option of its own, next to the one that it resembles.
    if (meant !== null && !(meant in given)) throw new ConfigError(`The environment ${id} has no option ${name}; did you mean ${meant}?`);
  }
}
