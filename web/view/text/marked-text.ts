/**
 * Finds characters that a reader does not see, or that reorder the visible text: controls, bidirectional marks, zero-width characters, lone surrogates. Text of
 * models and passages is hostile: such characters hide text or make it look like another. Line feed, tab and the joiners of scripts and emoji stay as they are.
 */

/** A piece of text, or a character to show as a mark. */
export type Piece = string | { readonly symbol: string; readonly name: string };

const HIDDEN = /\r(?!\n)|(?![\n\r\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/u;

/** The names of the first 32 characters. */
const CONTROLS = 'NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(' ');

const NAMES: Readonly<Record<number, string>> = {
  0x00: 'null',
  0x08: 'backspace',
  0x0d: 'carriage return',
  0x1b: 'escape',
  0x7f: 'delete',
  0xad: 'soft hyphen',
  0x061c: 'Arabic letter mark',
  0x200b: 'zero-width space',
  0x200e: 'left-to-right mark',
  0x200f: 'right-to-left mark',
  0x2028: 'line separator',
  0x2029: 'paragraph separator',
  0x202a: 'left-to-right embedding',
  0x202b: 'right-to-left embedding',
  0x202c: 'end of embedding or override',
  0x202d: 'left-to-right override',
  0x202e: 'right-to-left override',
  0x2060: 'word joiner',
  0x2066: 'left-to-right isolate',
  0x2067: 'right-to-left isolate',
  0x2068: 'first strong isolate',
  0x2069: 'end of isolate',
  0xfeff: 'byte order mark',
};

export function piecesOf(text: string): Piece[] {
  if (!HIDDEN.test(text)) return text === '' ? [] : [text];
  const pieces: Piece[] = [];
  let from = 0;
  for (const { 0: found, index } of text.matchAll(new RegExp(HIDDEN, 'gu'))) {
    if (index > from) pieces.push(text.slice(from, index));
    pieces.push(markOf(found.codePointAt(0)!));
    from = index + found.length;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}

/** The text for places that hold only text: titles of the page, labels, tooltips. */
export function plainText(text: string): string {
  return piecesOf(text)
    .map((piece) => (typeof piece === 'string' ? piece : `[${piece.symbol}]`))
    .join('');
}

function markOf(code: number): Piece {
  const hex = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
  const name = NAMES[code];
  const symbol = CONTROLS[code] ?? (code === 0x7f ? 'DEL' : hex);
  return { symbol, name: name === undefined ? hex : `${hex} ${name}` };
}
