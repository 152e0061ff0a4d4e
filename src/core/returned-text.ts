/** A value that the user's code returned, as a message quotes it: `NaN`, `"1" (a string)`, `null`, `an object`, `nothing` for undefined. */
export function returnedText(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return `${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)} (a string)`;
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : value instanceof Date ? 'a date' : 'an object';
  if (typeof value === 'function') return 'a function';
  return String(value as number | boolean | bigint | symbol | null);
}
