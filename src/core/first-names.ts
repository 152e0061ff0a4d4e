/** The first names of a list, for an error: `a, b, c and 4 more`. @default `most` 3 */
export function firstNames(names: readonly string[], most = 3): string {
  return `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${names.length - most} more` : ''}`;
}
