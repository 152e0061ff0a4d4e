/** The number of words that two lists have in common, counted with multiplicity: Python's `Counter(a) & Counter(b)`, summed. */
export function commonWords(a: readonly string[], b: readonly string[]): number {
  const left = new Map<string, number>();
  for (const word of b) left.set(word, (left.get(word) ?? 0) + 1);
  let common = 0;
  for (const word of a) {
    const count = left.get(word) ?? 0;
    if (count === 0) continue;
    common++;
    left.set(word, count - 1);
  }
  return common;
}
