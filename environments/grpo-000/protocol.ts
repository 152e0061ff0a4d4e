/** The tag protocol: the end of a generation, the query in it, and the injected block. Every function is one pass over its text. */
import { strip } from 'vf-search/metrics/python-text';

const THINK = '<think>';
const THINK_END = '</think>';
const SEARCH = '<search>';

/** The ends of a generation; the first of them cuts it. */
export const STOPS = ['</search>', '</answer>'] as const;

/** The form of an injected block in the judged text, independent of its content: a passage that spells a tag neither breaks nor fakes anything. */
export const EMPTY_INFORMATION = '<information></information>';

/** The number of characters through the first `</search>` or `</answer>`; all of them if there is neither. */
export function cutLength(text: string): number {
  const ends = STOPS.flatMap((stop) => {
    const at = text.indexOf(stop);
    return at === -1 ? [] : [at + stop.length];
  });
  return ends.length === 0 ? text.length : Math.min(...ends);
}

/** The text without its closed think blocks; one that is never closed stays. */
export function withoutThinking(text: string): string {
  let kept = '';
  let from = 0;
  for (;;) {
    const open = text.indexOf(THINK, from);
    const close = open === -1 ? -1 : text.indexOf(THINK_END, open + THINK.length);
    if (close === -1) return kept + text.slice(from);
    kept += text.slice(from, open);
    from = close + THINK_END.length;
  }
}

/** Tells whether a think block is open at the end of the text. */
export function isThinking(text: string): boolean {
  return text.lastIndexOf(THINK) > text.lastIndexOf(THINK_END);
}

/**
 * The query of a generation that ends with `</search>`, stripped. Null if nothing is to be searched: inside an open think block, without a `<search>`
 * outside of think blocks, with a blank query.
 * @param text the generation, after a `<think>` if one was open before it
 */
export function searchQuery(text: string): string | null {
  if (isThinking(text)) return null;
  const visible = withoutThinking(text);
  const [close] = STOPS;
  const open = visible.indexOf(SEARCH);
  if (open === -1 || !visible.endsWith(close) || open + SEARCH.length > visible.length - close.length) return null;
  const query = strip(visible.slice(open + SEARCH.length, -close.length));
  return query === '' ? null : query;
}

/** The text that is injected right behind `</search>`. */
export function informationBlock(result: string): string {
  return `<information>${result}</information>`;
}
