/** Reads the action of a policy's turn (DDAI, `postprocess_predictions`). */
import { strip } from 'vf-search/metrics/python-text';
import { type Block, findBlock } from 'vf-search/metrics/tag-blocks';

export const ACTIONS = ['search', 'bbox', 'search_complete'] as const;
export type ActionName = (typeof ACTIONS)[number];

export interface Action {
  /** Null if the text contains no action. */
  readonly action: ActionName | null;
  /** The stripped text between the tags; empty without an action. */
  readonly content: string;
}

/** The first `<search>`, `<bbox>` or `<search_complete>` that is closed, also inside a think. Never throws. */
export function parseAction(text: string): Action {
  let first: (Block & { readonly action: ActionName }) | null = null;
  for (const action of ACTIONS) {
    const block = findBlock(text, action);
    if (block !== null && (first === null || block.start < first.start)) first = { ...block, action };
  }
  return first === null ? { action: null, content: '' } : { action: first.action, content: strip(first.content) };
}

/** Tells whether the content of `<search_complete>` ends the search. */
export function isComplete(content: string): boolean {
  return strip(content).toLowerCase() === 'true';
}
