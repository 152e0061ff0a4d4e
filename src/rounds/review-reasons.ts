/** Finds reasons why a prompt may be out of reach, from its trace. Pure. */
import { documentOf } from '../metrics/document-of.ts';
import { type TracedRollout, turnsOf } from './traced-rollouts.ts';

/** Names of the reasons, each with a test that every rollout of the prompt must pass. */
const REASONS: readonly (readonly [string, (rollout: TracedRollout) => boolean])[] = [
  ['no_golden_page', ({ golden }) => golden.length === 0],
  ['never_valid_format', ({ format }) => format === false],
  ['never_searched', ({ pages }) => pages.length === 0],
  ['document_never_found', ({ pages, golden }) => pages.length > 0 && !pages.some((page) => golden.map(documentOf).includes(documentOf(page)))],
  ['page_never_found', ({ pages, golden }) => pages.length > 0 && !pages.some((page) => golden.includes(page))],
  ['never_answered', ({ answer }) => answer === ''],
  ['one_turn_only', (rollout) => turnsOf(rollout) <= 1],
];

/** Names of the reasons that hold for every rollout of the prompt. */
export function reviewReasons(rollouts: readonly TracedRollout[]): string[] {
  return REASONS.filter(([, holds]) => rollouts.length > 0 && rollouts.every(holds)).map(([name]) => name);
}
