/** The value of a name that came from a file. Names such as `constructor` and `__proto__` do not find the properties that every object has. */
export function ownValue<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
