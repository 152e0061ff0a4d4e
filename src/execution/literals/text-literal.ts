/** Reads Python's texts and bytes: prefixes, quotes and escapes. */
import type { LiteralText } from './literal.ts';
import type { Scanner } from './scanner.ts';

const OPENING = /(?:[uU]|[rR]|[bB]|[bB][rR]|[rR][bB])?(?:'''|"""|'|")/y;
const LINE_BREAK = /\r\n?/g;
const SIMPLE: Readonly<Record<string, string>> = {
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '\n': '',
};
const OCTAL = /[0-7]{1,3}/y;
const HEX = { x: /[0-9a-fA-F]{2}/y, u: /[0-9a-fA-F]{4}/y, U: /[0-9a-fA-F]{8}/y } as const;
const LAST_POINT = 0x10ffff;

/** Marks, in a key, a half of a pair that was written as an escape. */
const MARK = '\ue000';

/** The text that begins here, joined with the texts that directly follow it; null if none begins here. Throws LiteralProblem. */
export function textLiteral(scanner: Scanner): LiteralText | null {
  const first = singleText(scanner);
  if (first === null) return null;
  const parts = [first];
  for (;;) {
    scanner.skipBlanks();
    const next = singleText(scanner);
    if (next === null) break;
    if (next.kind !== first.kind) throw scanner.problem('text and bytes side by side');
    parts.push(next);
  }
  return { kind: first.kind, value: parts.map(({ value }) => value).join(''), key: parts.map(({ key }) => key).join('') };
}

function singleText(scanner: Scanner): LiteralText | null {
  const opening = scanner.take(OPENING);
  if (opening === null) return null;
  const quote = /(?<!['"])['"]+$/.exec(opening)![0];
  const prefix = opening.slice(0, -quote.length).toLowerCase();
  const kind = prefix.includes('b') ? 'bytes' : 'str';
  const source = scanner.text.slice(scanner.at, closingQuote(scanner, quote));
  const at = scanner.at;
  scanner.at += source.length + quote.length;
  const lines = source.replace(LINE_BREAK, '\n');
  if (kind === 'bytes' && /[^\0-\x7f]/.test(lines)) throw scanner.problem('a character outside of ASCII in bytes');
  if (prefix.includes('r') || !lines.includes('\\')) return { kind, value: lines, key: keyOf(lines) };
  return unescaped(kind, lines, () => scanner.problem(`a broken escape in the text from character ${at}, which ends`));
}

/** Index of the quote that ends the text. Escaped characters do not count, even in raw texts. */
function closingQuote(scanner: Scanner, quote: string): number {
  const { text } = scanner;
  for (let at = scanner.at; at < text.length; at++) {
    if (text[at] === '\\') at += text.startsWith('\r\n', at + 1) ? 2 : 1;
    else if (text.startsWith(quote, at)) return at;
    else if (quote.length === 1 && (text[at] === '\n' || text[at] === '\r')) break;
  }
  throw scanner.problem('a text that does not end');
}

/** Collects the characters and the key. */
class Characters {
  value = '';
  key = '';

  add(text: string): void {
    this.value += text;
    this.key += keyOf(text);
  }

  /** Adds a code point from an escape. It does not join two halves of a surrogate pair. */
  addPoint(point: number): void {
    if (point >= 0xd800 && point <= 0xdfff) {
      this.value += String.fromCharCode(point);
      this.key += MARK + point.toString(16);
    } else this.add(String.fromCodePoint(point));
  }
}

function keyOf(text: string): string {
  return text.includes(MARK) ? text.replaceAll(MARK, MARK + MARK) : text;
}

function unescaped(kind: 'str' | 'bytes', source: string, broken: () => Error): LiteralText {
  const characters = new Characters();
  let at = 0;
  while (at < source.length) {
    const escape = source.indexOf('\\', at);
    characters.add(source.slice(at, escape === -1 ? source.length : escape));
    if (escape === -1) break;
    at = addEscape(characters, { kind, source, at: escape + 1, broken });
  }
  return { kind, value: characters.value, key: characters.key };
}

interface Escape {
  readonly kind: 'str' | 'bytes';
  readonly source: string;
  /** Index after the backslash. */
  readonly at: number;
  readonly broken: () => Error;
}

/** Adds the meaning of the escape; returns the index after it. An unknown escape stands for itself, as in Python. */
function addEscape(characters: Characters, { kind, source, at, broken }: Escape): number {
  const letter = source[at]!;
  const simple = SIMPLE[letter];
  if (simple !== undefined) {
    characters.add(simple);
    return at + 1;
  }
  const octal = matchAt(OCTAL, source, at);
  if (octal !== null) {
    const point = parseInt(octal, 8);
    characters.addPoint(kind === 'bytes' ? point & 0xff : point);
    return at + octal.length;
  }
  if (letter === 'x' || (kind === 'str' && (letter === 'u' || letter === 'U'))) {
    const digits = matchAt(HEX[letter], source, at + 1);
    const point = parseInt(digits ?? '', 16);
    if (digits === null || point > LAST_POINT) throw broken();
    characters.addPoint(point);
    return at + 1 + digits.length;
  }
  // Only Python's own tables have the names of characters.
  if (kind === 'str' && letter === 'N') throw broken();
  characters.add('\\');
  return at;
}

function matchAt(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? null;
}
