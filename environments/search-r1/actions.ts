/** What upstream keeps of a generation, which action it reads there, and what it answers (search_r1/llm_agent/generation.py). */
import type { Passage } from 'vf-search';
import { strip } from './python-text.ts';
import { findBlock } from './tags.ts';

/** Appended after a generation without an action. */
export const CORRECTIVE_MESSAGE =
  '\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. ' +
  'If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n';

export interface Action {
  /** Null when the text holds no action. */
  readonly action: 'search' | 'answer' | null;
  /** The query or the answer, stripped; empty when there is no action. */
  readonly content: string;
}

/** Through the first `</search>`, else through the first `</answer>`, else all: `</search>` wins even where `</answer>` comes first. */
export function cutResponse(response: string): string {
  for (const close of ['</search>', '</answer>']) {
    const at = response.indexOf(close);
    if (at !== -1) return response.slice(0, at + close.length);
  }
  return response;
}

/** The FIRST match of `<(search|answer)>(.*?)</\1>`, as upstream reads one turn's cut text. Total on any input. */
export function parseAction(text: string): Action {
  const search = findBlock(text, 'search');
  const answer = findBlock(text, 'answer');
  if (search && (!answer || search.start < answer.start)) return { action: 'search', content: strip(search.content) };
  if (answer) return { action: 'answer', content: strip(answer.content) };
  return { action: null, content: '' };
}

/** One line per passage: the first line of its contents is the title as it is, quotes included; only `\n` ends a line. */
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

/** What a search appends to the episode; no passage gives `\n\n<information></information>\n\n`. */
export function observation(passages: readonly Pick<Passage, 'contents'>[]): string {
  return `\n\n<information>${strip(formatPassages(passages))}</information>\n\n`;
}
