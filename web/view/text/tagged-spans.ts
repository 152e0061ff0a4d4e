/** Cuts the text of a model at its tags, which need not match. Nothing is left out or moved. */

const TAG = /<\/?([a-z][\w-]{0,30})>/gi;

interface Span {
  readonly text: string;
  /** The innermost open tag; empty outside of all. */
  readonly within: string;
  readonly isTag: boolean;
}

export function spansOf(text: string): Span[] {
  const spans: Span[] = [];
  const open: string[] = [];
  let from = 0;
  const put = (part: string, isTag: boolean) => {
    if (part !== '') spans.push({ text: part, within: open.at(-1) ?? '', isTag });
  };
  for (const match of text.matchAll(TAG)) {
    put(text.slice(from, match.index), false);
    const name = match[1]!.toLowerCase();
    if (!match[0].startsWith('</')) open.push(name);
    put(match[0], true);
    if (match[0].startsWith('</')) {
      const at = open.lastIndexOf(name);
      if (at >= 0) open.length = at;
    }
    from = match.index + match[0].length;
  }
  put(text.slice(from), false);
  return spans;
}
