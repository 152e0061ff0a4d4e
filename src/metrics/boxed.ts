/** The last `\boxed{...}` in a string, as UltraRAG and Search-o1 read it. Linear in the number of boxes and in the depth of the braces. */
import { strip, stripCharacters } from './python-text.ts';

const OPEN = String.raw`\boxed{`;
const TEXT = String.raw`\text{`;

/**
 * UltraRAG's `output_extract_from_boxed`: the contents of the last `\boxed{` up to its matching brace, without dollar signs, `\(`, `\text{}` and round brackets
 * around it; the whole text if there is none. Backslashes become spaces. One that is never closed loses its last character, as upstream does it.
 * @example boxed('so it is \\boxed{\\text{Paris}}') // 'Paris'
 */
export function boxed(text: string): string {
  const at = text.lastIndexOf(OPEN);
  const content = at === -1 ? strip(text) : unwrapped(strip(upToBrace(text, at + OPEN.length)));
  return content.replaceAll('\\', ' ').replaceAll('  ', ' ');
}

/**
 * Search-o1's rule (scripts/evaluate.py): in the last line that has a box, everything between its first `\boxed{` and its last brace; empty if there is none.
 * @param options `isAnswer`: also takes the text out of `\text{}` and off round brackets, as upstream does for questions and choices. @default false
 * @example greedyBoxed('\\boxed{a} or \\boxed{b}') // 'a} or \\boxed{b'
 */
export function greedyBoxed(text: string, { isAnswer = false }: { readonly isAnswer?: boolean } = {}): string {
  const inner = lastBetween(text, OPEN);
  if (inner === null) return '';
  return isAnswer ? stripCharacters(lastBetween(inner, TEXT) ?? inner, '()') : inner;
}

/** The last match of `open(.*)}`, greedy and within a line; null if there is none. */
function lastBetween(text: string, open: string): string | null {
  for (let end = text.length; ;) {
    // A negative index would count as 0, and find a line break at the very beginning again.
    const start = end === 0 ? 0 : text.lastIndexOf('\n', end - 1) + 1;
    const line = text.slice(start, end);
    const at = line.indexOf(open);
    const close = line.lastIndexOf('}');
    if (at !== -1 && close >= at + open.length) return line.slice(at + open.length, close);
    if (start === 0) return null;
    end = start - 1;
  }
}

function upToBrace(text: string, start: number): string {
  let depth = 1;
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x7b) depth++;
    else if (code === 0x7d && --depth === 0) return text.slice(start, i);
  }
  // Python's last character is a code point, which may have two units.
  const last = (text.codePointAt(text.length - 2) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(start, Math.max(start, text.length - last));
}

function unwrapped(content: string): string {
  let inner = strip(stripCharacters(content, '$'));
  if (inner.startsWith('\\(')) inner = inner.slice(2);
  if (inner.endsWith('\\)')) inner = inner.slice(0, -2);
  inner = strip(inner);
  if (inner.startsWith(TEXT) && inner.endsWith('}')) inner = strip(inner.slice(TEXT.length, -1));
  return strip(stripCharacters(inner, '()'));
}
