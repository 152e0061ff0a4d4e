import { suggestion } from './closest-name.ts';
import { ConfigError } from './errors.ts';

/** Throws ConfigError unless `options` is an object without unknown keys. `name` is what takes them: `evaluate`, `policy`. */
export function checkOptions(name: string, options: object, known: readonly string[]): void {
  const given: unknown = options;
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new ConfigError(`${name} must be given an object, got ${JSON.stringify(given)}. It has the options ${known.join(', ')}.`);
  const unknown = Object.keys(given).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new ConfigError(`${name} has no option ${unknown}${suggestion(unknown, known)}. Leave it out; it has ${known.join(', ')}.`);
}
