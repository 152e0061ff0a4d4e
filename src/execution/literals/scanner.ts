/** A place in a string. Knows the whitespace of Python's tokens: space, tab and form feed; in brackets also line breaks and comments. */
import { LiteralProblem } from './literal.ts';

const BLANKS = /[ \t\f]*/y;
const BLANKS_IN_BRACKETS = /(?:[ \t\f\r\n]|\\(?:\r\n|\r|\n)|#[^\r\n]*)*/y;
const BLANK_LINES = /(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*/y;
const IDENTIFIER = /[\p{ID_Start}_][\p{ID_Continue}]*/uy;

export class Scanner {
  readonly text: string;
  at = 0;
  /** Open brackets around the place. */
  depth = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** The matched text, which is consumed; null if the pattern, with the flag `y`, does not match here. */
  take(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const taken = pattern.exec(this.text)?.[0] ?? null;
    if (taken !== null) this.at += taken.length;
    return taken;
  }

  takeText(expected: string): boolean {
    if (!this.text.startsWith(expected, this.at)) return false;
    this.at += expected.length;
    return true;
  }

  /** Consumes the text and whitespace after it. */
  takeToken(expected: string): boolean {
    if (!this.takeText(expected)) return false;
    this.skipBlanks();
    return true;
  }

  skipBlanks(): void {
    this.take(this.depth > 0 ? BLANKS_IN_BRACKETS : BLANKS);
  }

  skipBlankLines(): void {
    this.take(BLANK_LINES);
  }

  takeIdentifier(): string | null {
    return this.take(IDENTIFIER);
  }

  peek(): string {
    return this.text[this.at] ?? '';
  }

  isAtEnd(): boolean {
    return this.at === this.text.length;
  }

  problem(what: string): LiteralProblem {
    return new LiteralProblem(`${what} at character ${this.at}`);
  }
}
