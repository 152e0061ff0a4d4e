/** The first value that an earlier one equals. */
export function firstRepeated(values: readonly string[]): string | undefined {
  return values.find((value, i) => values.indexOf(value) !== i);
}
