import { closestName } from './closest-name.ts';
import { ConfigError } from './errors.ts';

/**
 * TypeScript runs without its compiler, so a misspelled option would silently leave the default. A subclass may pass options of its own, so only a
 * name with one wrong letter is refused.
 */
export function checkSpelling(id: string, given: object, known: readonly string[]): void {
  for (const name of Object.keys(given)) {
    const meant = known.includes(name) ? null : closestName(name, known, 1);
    // Beside the option that it resembles, it is one of the subclass's own.
    if (meant !== null && !(meant in given)) throw new ConfigError(`The environment ${id} has no option ${name}; did you mean ${meant}?`);
  }
}
