/** The value of a key, made where it is missing, and moved to the end of the map: what was used longest ago comes first. */
export function lastUsed<K, V>(values: Map<K, V>, key: K, make: () => V): V {
  const value = values.get(key) ?? make();
  values.delete(key);
  values.set(key, value);
  return value;
}
