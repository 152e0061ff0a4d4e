/** Numbers among the options of `vf-rounds`. */
import { InvalidArgumentError } from 'commander';

/** A number from `min` to `max`. */
export function numberFrom(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = text.trim() === '' ? NaN : Number(text);
    if (!(value >= min && value <= max)) throw new InvalidArgumentError(`It must be a number from ${min} to ${max}.`);
    return value;
  };
}
