/** Truncates a generation, parses its action and formats the observation, as upstream does (search_r1/llm_agent/generation.py). */
import type { Passage } from 'vf-search';
import { strip } from 'vf-search/metrics/python-text';
import { findBlock } from 'vf-search/metrics/tag-blocks';

/** Appended after a generation without an action. */
export const CORRECTIVE_MESSAGE =
  '\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. ' +
  'If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n';

export interface Action {
  /** Null if the text contains no action. */
  readonly action: 'search' | 'answer' | null;
  /** The query or the answer, stripped; empty if there is no action. */
  readonly content: string;
}

/** Cuts after the first `</search>`, else after the first `</answer>`. `</search>` takes precedence even if `</answer>` comes first. */
export function cutResponse(response: string): string {
  for (const close of ['</search>', '</answer>']) {
    const at = response.indexOf(close);
    if (at !== -1) return response.slice(0, at + close.length);
  }
  return response;
}

/** The FIRST match of `<(search|answer)>(.*?)</\1>`, as upstream parses one turn's truncated text. Never throws. */
export function parseAction(text: string): Action {
  const search = findBlock(text, 'search');
  const answer = findBlock(text, 'answer');
  if (search && (!answer || search.start < answer.start)) return { action: 'search', content: strip(search.content) };
  if (answer) return { action: 'answer', content: strip(answer.content) };
  return { action: null, content: '' };
}

/** One line per passage. The title is the first line of its contents, quotes included; only `\n` ends a line. */
export function formatPassages(passages: readonly Pick<Passage, 'contents'>[]): string {
  let out = '';
  for (const [i, { contents }] of passages.entries()) {
    const lineEnd = contents.indexOf('\n');
    const title = lineEnd === -1 ? contents : contents.slice(0, lineEnd);
    const text = lineEnd === -1 ? '' : contents.slice(lineEnd + 1);
    out += `Doc ${i + 1}(Title: ${title}) ${text}\n`;
  }
  return out;
}

/** The text that a search appends to the episode: `\n\n<information></information>\n\n` if there are no passages. */
export function observation(passages: readonly Pick<Passage, 'contents'>[]): string {
  return `\n\n<information>${strip(formatPassages(passages))}</information>\n\n`;
}
