/** The first part of a value that JSON cannot hold, with its place: `a Date at ans_ls[2]`. Null if the value survives a round trip through JSON. */
export function jsonProblem(value: unknown, place: string, within: readonly object[] = []): string | null {
  const where = place === '' ? '' : ` at ${place}`;
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return null;
  if (typeof value === 'number') return Number.isFinite(value) ? null : `${value}${where}`;
  if (value === undefined) return place === '' ? null : `undefined${where}`;
  if (typeof value !== 'object') return `a ${typeof value}${where}`;
  if (within.includes(value)) return `an object that contains itself${where}`;
  if (within.length > DEEPEST) return `a value nested more than ${DEEPEST} levels deep${where}`;
  const inner = [...within, value];
  if (Array.isArray(value)) return first(value.keys(), (i) => jsonProblem(value[i], `${place}[${i}]`, inner));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return `a ${value.constructor?.name ?? 'strange object'}${where}`;
  const fields = value as Readonly<Record<string, unknown>>;
  return first(Object.keys(fields), (key) =>
    // An output that is left out is reported by its name.
    fields[key] === undefined && place === '' ? null : jsonProblem(fields[key], place === '' ? key : `${place}.${key}`, inner),
  );
}

const DEEPEST = 100;

function first<T>(values: Iterable<T>, problemOf: (value: T) => string | null): string | null {
  for (const value of values) {
    const problem = problemOf(value);
    if (problem !== null) return problem;
  }
  return null;
}
