/**
 * The segments as they are scored. Where a server keeps a model's thoughts in a field of their own (a reasoning parser), they stand before the turn in the tags in which the model
 * wrote them, as in the text that upstream decodes; actions are read from the turn alone. A turn with thoughts of its own in its text stays as it is.
 */
import type { TextSegment } from '../core/rubric.ts';

/** `withThoughts`: the rewards read them, as in continuation format and by a rubric that `readsThoughts`. */
export function scoredSegments(segments: readonly TextSegment[], withThoughts: boolean): readonly TextSegment[] {
  if (!withThoughts) return segments;
  return segments.map((segment) => {
    const { text, reasoning } = segment;
    if (reasoning === undefined || text.includes('<think>')) return segment;
    // A turn without text was cut inside its thoughts.
    return { ...segment, text: `<think>\n${reasoning}${text === '' ? '' : `\n</think>\n\n${text}`}` };
  });
}
