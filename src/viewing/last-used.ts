/** Returns the value of a key, made if it is missing, and moves it to the end of the map, so that the least recently used value comes first. */
export function lastUsed<K, V>(values: Map<K, V>, key: K, make: () => V): V {
  const value = values.get(key) ?? make();
  values.delete(key);
  values.set(key, value);
  return value;
}
