/** Names the kind of a JSON value, not the value, which may be huge, deep or private. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** The value if it is a number or a boolean, which are short; else its kind. */
export function kindOrNumber(value: unknown): string {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : kindOf(value);
}
