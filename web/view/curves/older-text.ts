/** Says that evaluations are not drawn. @param older their number, at least 1 */
export function olderText(older: number): string {
  const are = older === 1 ? '1 evaluation is' : `${older} evaluations are`;
  return `${are} not drawn: the environment or the settings of the evaluation have changed since, so rewards from before have another scale.`;
}
