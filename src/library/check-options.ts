import { suggestion } from '../core/closest-name.ts';
import { ConfigError } from '../core/errors.ts';

/** Throws ConfigError for the first option that the function does not have. */
export function checkOptions(name: string, options: object, known: readonly string[]): void {
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new ConfigError(`${name} has no option ${unknown}${suggestion(unknown, known)}. Leave it out; it has ${known.join(', ')}.`);
}
