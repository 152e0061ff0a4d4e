/**
 * Finds `<tag>(.*?)</tag>`, with dot matching newlines, in one pass: a backtracking regular expression is quadratic in unclosed tags. Matches are found
 * left to right, do not overlap, and end at the first closing tag.
 */

export interface Block {
  /** Offset of `<tag>`. */
  readonly start: number;
  /** Offset after `</tag>`. */
  readonly end: number;
  /** The text between the tags, unchanged. */
  readonly content: string;
}

/** The first block at or after `from`, or null. */
export function findBlock(text: string, tag: string, from = 0): Block | null {
  const open = `<${tag}>`;
  const close = `</${tag}>`;
  const start = text.indexOf(open, from);
  if (start === -1) return null;
  const closeAt = text.indexOf(close, start + open.length);
  if (closeAt === -1) return null;
  return { start, end: closeAt + close.length, content: text.slice(start + open.length, closeAt) };
}

/** Every block of the text. */
export function* findBlocks(text: string, tag: string): Generator<Block> {
  for (let block = findBlock(text, tag); block; block = findBlock(text, tag, block.end)) yield block;
}
