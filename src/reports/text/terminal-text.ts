/**
 * Makes text from models, passages and servers safe to print: it cannot move the cursor, recolour the screen, reverse the reading direction or hide.
 * Escapes look like those in a JavaScript string: `\x1b`, `\u202e`, `\u{e0041}`.
 */
import { randomBytes } from 'node:crypto';

// C0 (tab, line feed and carriage return among them), DEL, C1, soft hyphen, the bidi marks, embeddings, overrides and isolates, line and
// paragraph separators, invisible spaces and fillers, deprecated format controls, the byte order mark, annotations, tags, and surrogates
// without a partner. The joiners U+200C and U+200D stay: scripts and emoji need them.
const UNSAFE =
  // oxlint-disable-next-line no-control-regex -- control characters are what this is about
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

/** Escapes every unsafe character. With `lines`, line feeds stay and tabs become spaces; otherwise they become `\n` and `\t`. */
export function escapeControls(text: string, options: { readonly lines?: boolean } = {}): string {
  return text.replace(UNSAFE, (char) => {
    if (char === '\n') return options.lines ? '\n' : '\\n';
    if (char === '\t') return options.lines ? '    ' : '\\t';
    if (char === '\r') return '\\r';
    const code = char.codePointAt(0)!;
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** In every style of this process, and unknown to those whose text it prints. */
const OWN = randomBytes(8).toString('hex');
// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const STYLE = /\u001b\[([\d;]*m)/g;
const OWN_STYLE = new RegExp(`\\u001b\\[${OWN};([\\d;]*m)`);

/** Marks the styles of a text as this process's own, so that `printable` keeps them. */
export function ownStyles(text: string): string {
  return text.replace(STYLE, `\u001b[${OWN};$1`);
}

/** What every writer to a terminal applies to whole lines, once: escapes every unsafe character but line feeds, and the styles of others; own styles stay. */
export function printable(text: string): string {
  return text
    .split(OWN_STYLE)
    .map((part, i) => (i % 2 === 1 ? `\u001b[${part}` : escapeControls(part, { lines: true })))
    .join('');
}

/** A value as a line of JSON for a terminal or a pipe: the characters that `JSON.stringify` leaves and a terminal acts on are escaped as JSON has it. */
export function jsonLine(value: unknown, indent?: number): string {
  return `${JSON.stringify(value, null, indent).replace(UNSAFE, (char) => (char === '\n' ? char : char.replace(/[^]/g, unicodeEscape)))}\n`;
}

function unicodeEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

const ZERO_WIDTH = /^[\p{Mn}\p{Me}\u200c\u200d]$/u;
const WIDE =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]$/u;

/** Columns that a character takes in a terminal: 0, 1 or 2. */
function cells(char: string): number {
  if (char <= '\u007e') return 1;
  if (ZERO_WIDTH.test(char)) return 0;
  return WIDE.test(char) ? 2 : 1;
}

/** Columns that safe text takes in a terminal. */
export function cellWidth(text: string): number {
  let width = 0;
  for (const char of text) width += cells(char);
  return width;
}

/** Returns the text if it fits in `width` columns, otherwise its beginning and `…`. */
export function clip(text: string, width: number): string {
  if (text.length <= width / 2 || cellWidth(text) <= width) return text;
  let head = '';
  let used = 0;
  for (const char of text) {
    used += cells(char);
    if (used > width - 1) break;
    head += char;
  }
  return `${head.trimEnd()}…`;
}

/**
 * Breaks safe text into lines of at most `width` columns, at spaces if possible; its own line feeds stay. With `wholeWords` a wider word, such as a path
 * to copy, gets its own line even if that is too wide.
 */
export function wrap(text: string, width: number, options: { readonly wholeWords?: boolean } = {}): string[] {
  return text.split('\n').flatMap((line) => wrapLine(line, width, options.wholeWords ?? false));
}

function wrapLine(line: string, width: number, wholeWords: boolean): string[] {
  const lines: string[] = [];
  let current = '';
  let used = 0;
  for (const piece of line.match(/ +|[^ ]+/g) ?? []) {
    const wide = cellWidth(piece);
    if (used + wide <= width) {
      current += piece;
      used += wide;
      continue;
    }
    if (used > 0) lines.push(withoutEndSpaces(current));
    [current, used] = ['', 0];
    if (piece.startsWith(' ')) continue;
    if (wholeWords) {
      [current, used] = [piece, wide];
      continue;
    }
    for (const char of piece) {
      const size = cells(char);
      if (used + size > width && used > 0) {
        lines.push(current);
        [current, used] = ['', 0];
      }
      current += char;
      used += size;
    }
  }
  if (used > 0 || lines.length === 0) lines.push(withoutEndSpaces(current));
  return lines;
}

/** Other white space, such as a no-break space, counts as text. */
function withoutEndSpaces(line: string): string {
  return line.replace(/(?<! ) +$/, '');
}
