/** What became of a question in an evaluation with search-r1: where a wrong answer went wrong. Pure. */
import { emCheck, normalizeAnswer } from 'vf-search/environments/search-r1';
import { findBlock } from 'vf-search/metrics/tag-blocks';
import { holds } from './evidence.ts';

/**
 * - `right`: exact match
 * - `no_answer`: the policy wrote no answer
 * - `not_found`: no passage that it saw holds a golden answer, so only its memory could have answered
 * - `other_words`: a golden answer and its own share words: it found the place and cut it otherwise
 * - `other_place`: its answer stands in a passage that it saw, somewhere else
 * - `not_copied`: its answer stands in no passage
 */
export const OUTCOMES = ['right', 'no_answer', 'not_found', 'other_words', 'other_place', 'not_copied'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface PlayedQuestion {
  /** In the order of the rollout; `model` is the policy's own text. */
  readonly segments: readonly { readonly kind: string; readonly text: string }[];
  readonly golden: readonly string[];
}

export function outcomeOf({ segments, golden }: PlayedQuestion): Outcome {
  const text = (isModel: boolean) => segments.filter(({ kind }) => (kind === 'model') === isModel).map((segment) => segment.text);
  const answer = text(true)
    .map((turn) => findBlock(turn, 'answer')?.content)
    .findLast((found) => found !== undefined);
  // Exact match removes punctuation, so a tag would stick to the word before it.
  const seen = text(false)
    .join('\n')
    .replaceAll(/<\/?information>/g, ' ');
  if (answer === undefined) return 'no_answer';
  if (emCheck(answer, golden) === 1) return 'right';
  if (!golden.some((one) => holds(seen, one))) return 'not_found';
  const words = new Set(normalizeAnswer(answer).split(' '));
  if (
    golden.some((one) =>
      normalizeAnswer(one)
        .split(' ')
        .some((word) => word !== '' && words.has(word)),
    )
  )
    return 'other_words';
  return holds(seen, answer) ? 'other_place' : 'not_copied';
}
