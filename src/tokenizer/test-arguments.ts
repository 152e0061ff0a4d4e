/** Tests with arguments (`x is divisibleby 3`, `x is in [1, 2]`), which the Jinja library cannot parse, become filters of their own: `x|_is_divisibleby(3)`. */

/** A token of the library. */
export interface Token {
  readonly type: string;
  readonly value: string;
}

const WITH_ARGUMENTS: ReadonlySet<string> = new Set('divisibleby eq equalto ne lt lessthan le gt greaterthan ge in sameas'.split(' '));
const OPENING: ReadonlySet<string> = new Set(['OpenParen', 'OpenSquareBracket', 'OpenCurlyBracket']);
const CLOSING: ReadonlySet<string> = new Set(['CloseParen', 'CloseSquareBracket', 'CloseCurlyBracket']);
const PRIMARY: ReadonlySet<string> = new Set(['Identifier', 'NumericLiteral', 'StringLiteral', ...OPENING]);

/** The test and its sense, if the name is that of such a filter. */
export function testOfFilter(name: string): { readonly test: string; readonly isNegated: boolean } | null {
  const [, negation, test] = /^_is(nt)?_(\w+)$/.exec(name) ?? [];
  return test === undefined ? null : { test, isNegated: negation !== undefined };
}

export function withTestArguments(tokens: readonly Token[]): Token[] {
  const written: Token[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!;
    const isNegated = isWord(tokens[at + 1], 'not');
    const place = at + (isNegated ? 2 : 1);
    const name = tokens[place];
    const end = isWord(token, 'is') && name?.type === 'Identifier' && WITH_ARGUMENTS.has(name.value) ? endOfOperand(tokens, place + 1) : 0;
    if (end === 0) {
      written.push(token);
      continue;
    }
    const isCall = tokens[place + 1]!.type === 'OpenParen';
    const given = tokens.slice(place + (isCall ? 2 : 1), isCall ? end - 1 : end);
    const filter = { type: 'Identifier', value: `_is${isNegated ? 'nt' : ''}_${name!.value}` };
    written.push({ type: 'Pipe', value: '|' }, filter, { type: 'OpenParen', value: '(' }, ...withTestArguments(given), {
      type: 'CloseParen',
      value: ')',
    });
    at = end - 1;
  }
  return written;
}

function isWord(token: Token | undefined, word: string): boolean {
  return token?.type === 'Identifier' && token.value === word;
}

/** The place after a literal, a name or brackets, with the attributes and subscripts that follow; 0 if nothing of the kind begins here. */
function endOfOperand(tokens: readonly Token[], start: number): number {
  if (!PRIMARY.has(tokens[start]?.type ?? '')) return 0;
  let at = afterBrackets(tokens, start);
  for (;;) {
    if (tokens[at]?.type === 'Dot') at += 2;
    else if (tokens[start]!.type === 'Identifier' && OPENING.has(tokens[at]?.type ?? '')) at = afterBrackets(tokens, at);
    else return at;
  }
}

function afterBrackets(tokens: readonly Token[], start: number): number {
  let depth = 0;
  for (let at = start; at < tokens.length; at++) {
    if (OPENING.has(tokens[at]!.type)) depth += 1;
    if (CLOSING.has(tokens[at]!.type)) depth -= 1;
    if (depth === 0) return at + 1;
  }
  return tokens.length;
}
