/** Values of the options of `vf-serve`. */
import { InvalidArgumentError } from 'commander';

/** Refuses an empty value: an unset shell variable must not mean this folder, or every address. */
export function named(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('It is empty.');
  return text;
}

export function collected(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, named(text)];
}

export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (!(value >= min && value <= max)) throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return value;
  };
}
