import type { Row } from './dataset.ts';
import type { Rubric } from './rubric.ts';

/** Whether the rewards of a row read thoughts. A rubric of another class knows nothing of them. */
export function readsThoughts<R extends Row>(rubric: Partial<Pick<Rubric<R>, 'readsThoughtsOf'>>, row: R): boolean {
  return rubric.readsThoughtsOf?.(row) ?? false;
}
