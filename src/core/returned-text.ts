/** A value that the user's code returned, as a message quotes it: `NaN`, `"1" (a string)`, `null`, `an object`, `nothing` for undefined. */
export function returnedText(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return `${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)} (a string)`;
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : value instanceof Date ? 'a date' : 'an object';
  return `a ${typeof value}`;
}
