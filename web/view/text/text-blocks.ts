/** Blocks of a long text, each laid out for itself. */

const BLOCK_CHARACTERS = 8_000;

/** Cuts at line ends if there are some, and never inside a character. */
export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  for (let from = 0; from < text.length;) {
    let end = Math.min(text.length, from + BLOCK_CHARACTERS);
    if (end < text.length) {
      const line = text.lastIndexOf('\n', end);
      if (line > from) end = line + 1;
      else if (/[\uD800-\uDBFF]/.test(text[end - 1]!)) end++;
    }
    blocks.push(text.slice(from, end));
    from = end;
  }
  return blocks;
}
