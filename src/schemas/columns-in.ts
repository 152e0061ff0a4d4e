const MOST_NAMES = 12;

/** The names of a row's columns for a message, at most 12: `"a", "b", ...`; `no columns` if it has none. */
export function columnsIn(row: Readonly<Record<string, unknown>>): string {
  const names = Object.keys(row);
  const shown = names.slice(0, MOST_NAMES).map((name) => JSON.stringify(name.slice(0, 40)));
  return names.length === 0 ? 'no columns' : `${shown.join(', ')}${names.length > MOST_NAMES ? ', ...' : ''}`;
}
