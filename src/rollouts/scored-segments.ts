/**
 * The segments as they are scored. Where a server keeps a model's thoughts in a field of their own (a reasoning parser), they stand before the turn in the tags in which the model
 * wrote them, as in the text that upstream decodes; actions are read from the turn alone. A turn with thoughts of its own in its text stays as it is.
 */
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { readsThoughts } from '../core/reads-thoughts.ts';
import type { Rubric, TextSegment } from '../core/rubric.ts';

interface Reading<R extends Row> {
  readonly row: R;
  readonly turnFormat: Environment<R>['turnFormat'];
  readonly rubric: Rubric<R>;
}

/** Rewards read thoughts in continuation format, and by a rubric that does so for the row. */
export function scoredSegments<R extends Row>(segments: readonly TextSegment[], { row, turnFormat, rubric }: Reading<R>): readonly TextSegment[] {
  if (turnFormat !== 'continuation' && !readsThoughts(rubric, row)) return segments;
  return segments.map((segment) => {
    const { text, reasoning } = segment;
    if (reasoning === undefined || text.includes('<think>')) return segment;
    // A turn without text was cut inside its thoughts.
    return { ...segment, text: `<think>\n${reasoning}${text === '' ? '' : `\n</think>\n\n${text}`}` };
  });
}
