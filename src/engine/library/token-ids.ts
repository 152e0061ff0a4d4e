import { EngineInputError } from '../engine-errors.ts';

/** Whole numbers of 32 bits as the engine takes them. Throws EngineInputError for any other value, which a typed array would change without a word. `what` begins the message. */
export function wholeNumbers(what: string, values: ArrayLike<number>): Int32Array {
  if (values instanceof Int32Array) return values;
  const numbers = Int32Array.from(values);
  const wrong = numbers.findIndex((number, i) => number !== values[i]);
  if (wrong < 0) return numbers;
  throw new EngineInputError(`${what} must be whole numbers, got ${values[wrong]} at index ${wrong}.`);
}
