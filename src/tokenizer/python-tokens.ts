/** The tokens of a template, with the syntax of Python's Jinja that the Jinja library cannot parse spelled in ways that it can. */
import { tokenize } from '@huggingface/jinja';
import { type Token, withTestArguments } from './test-arguments.ts';

const RAW = { opening: /\{%[-+]?\s*raw\b/g, whole: /\{%([-+]?)\s*raw\s*(?:-%\}\s*(?!\s)|%\})(.*?)\{%(-?)[+]?\s*endraw\s*([-+]?)%\}/sy };
const STRING = /'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"/gs;
const TAG = {
  opening: /\{[{%#]/g,
  whole: new RegExp(String.raw`\{#.*?#\}|\{\{(?:${STRING.source}|(?!\}\})[^'"])*\}\}|\{%(?:${STRING.source}|(?!%\})[^'"])*%\}`, 'sy'),
};
const ESCAPE = /\\([0-7]{1,3}|U[0-9a-f]{8}|.)/gis;
const KEYWORDS: ReadonlySet<string> = new Set('in is not and or if elif else for set'.split(' '));
/** An item that a tuple does not have. */
export const NO_ITEM = '_no_item';
/** What may follow the digits of a number: an exponent, a base or further groups of digits. */
const NUMBER_END = /^(?:e\d*|x[0-9a-f]+|b[01]+|o[0-7]+|(?:_\d+)+)$/i;

/**
 * Throws the library's error.
 * @param trimsBlocks a block takes the line break behind it and the space before it on its line, as transformers has it; jinja2 keeps both
 */
export function pythonTokens(source: string, trimsBlocks: boolean): readonly Token[] {
  const spelled = rewritten(rewritten(source, RAW, rawBlock), TAG, withSigns);
  const tokens = tokenize(spelled, { lstrip_blocks: trimsBlocks, trim_blocks: trimsBlocks }) as readonly Token[];
  return withTestArguments(withoutRecursive(withFilterBlocks(withTuples(withNumbers(tokens)))));
}

interface Construct {
  /** How one begins; global. */
  readonly opening: RegExp;
  /** All of it; sticky. */
  readonly whole: RegExp;
}

/** The source with each construct rewritten. One that has no end is an error of the template, so that nothing behind it is read: searching on would take quadratic time. */
function rewritten(source: string, { opening, whole }: Construct, rewrite: (...match: readonly string[]) => string): string {
  let text = '';
  let at = 0;
  for (;;) {
    opening.lastIndex = at;
    const start = opening.exec(source)?.index;
    if (start === undefined) break;
    whole.lastIndex = start;
    const match = whole.exec(source);
    if (match === null) break;
    text += source.slice(at, start) + rewrite(...match);
    at = whole.lastIndex;
  }
  return text + source.slice(at);
}

/** A raw block is a string that is always printed. */
function rawBlock(_ = '', sign = '', text = '', isTrimmed = '', last = ''): string {
  const kept = isTrimmed === '' ? text : text.trimEnd();
  const escaped = kept
    .replaceAll(/['\\]/g, String.raw`\$&`)
    .replaceAll('\n', String.raw`\n`)
    .replaceAll('\r', String.raw`\r`);
  return `{%${sign} if true %}{{ '${escaped}' }}{% endif ${last}%}`;
}

/**
 * `{%+` and `+%}` keep the white space next to a tag; an empty text between the two does so too. In strings, escapes that the library refuses are spelled in
 * another way.
 */
function withSigns(tag = ''): string {
  if (tag.startsWith('{#')) return tag;
  const written = tag.replaceAll(STRING, (string) => string.replaceAll(ESCAPE, escape));
  return written.replace(/^\{%\+/, "{{ '' }}{%").replace(/\+%\}$/, "%}{{ '' }}");
}

function escape(whole: string, code: string): string {
  if (/^[ntrbfv'"\\xu]/.test(code)) return whole;
  if (code === '\n') return '';
  if (code === 'a') return String.raw`\x07`;
  const isOctal = /^[0-7]/.test(code);
  return isOctal || code.startsWith('U') ? String.fromCodePoint(Number.parseInt(isOctal ? code : code.slice(1), isOctal ? 8 : 16)) : `\\${whole}`;
}

/** A tuple of one item or none gets placeholders for the others, and a comparison in brackets is marked, so that it does not become part of a chain. */
function withTuples(tokens: readonly Token[]): Token[] {
  const nothing = { type: 'Identifier', value: NO_ITEM };
  const comma = { type: 'Comma', value: ',' };
  const open: { readonly isGroup: boolean; hasComparison: boolean }[] = [];
  return tokens.flatMap((token, at) => {
    const before = tokens[at - 1];
    if (token.type === 'OpenParen') open.push({ isGroup: !isCallable(before), hasComparison: false });
    if (isComparison(token) && open.length > 0) open.at(-1)!.hasComparison = true;
    if (token.type !== 'CloseParen') return [token];
    const { isGroup, hasComparison } = open.pop() ?? { isGroup: false, hasComparison: false };
    if (isGroup && before!.type === 'Comma') return [nothing, token];
    if (isGroup && before!.type === 'OpenParen') return [nothing, comma, nothing, token];
    const isFollowed = tokens[at + 1] !== undefined && isComparison(tokens[at + 1]!);
    return isGroup && hasComparison && isFollowed ? [token, { type: 'Pipe', value: '|' }, { type: 'Identifier', value: '_grouped' }] : [token];
  });
}

function isCallable(token: Token | undefined): boolean {
  if (token?.type === 'Identifier') return !KEYWORDS.has(token.value);
  return token?.type === 'CloseParen' || token?.type === 'CloseSquareBracket';
}

function isComparison({ type, value }: Token): boolean {
  return type === 'ComparisonBinaryOperator' || (type === 'Identifier' && (value === 'in' || value === 'not'));
}

/** Numbers with exponents (`1.5e-7`), bases (`0x1f`) and underscores. */
function withNumbers(tokens: readonly Token[]): Token[] {
  const written: Token[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!;
    const end = token.type === 'NumericLiteral' ? (tokens[at + 1]?.value ?? '') : '';
    if (!NUMBER_END.test(end)) {
      written.push(token);
      continue;
    }
    const isOpen = /^e$/i.test(end);
    const [sign = '', exponent = ''] = isOpen ? [tokens[at + 2]?.value, tokens[at + 3]?.value] : [];
    const value = token.value + end.replaceAll('_', '') + sign + exponent;
    written.push({ type: token.type, value: /^e/i.test(end) && !token.value.includes('.') ? value.replace(/e/i, '.e') : value });
    at += isOpen ? 3 : 1;
  }
  return written;
}

/** `{% filter a | b %}text{% endfilter %}` as `{% set _text | a | b %}text{% endset %}{{ _text }}`. */
function withFilterBlocks(tokens: readonly Token[]): Token[] {
  const name = { type: 'Identifier', value: '_filtered' };
  return tokens
    .flatMap((token, at) => {
      if (token.type !== 'Identifier' || tokens[at - 1]?.type !== 'OpenStatement') return [token];
      if (token.value === 'filter') return [{ ...token, value: 'set' }, name, { type: 'Pipe', value: '|' }];
      if (token.value !== 'endfilter') return [token];
      return [
        { ...token, value: 'endset' },
        tokens[at + 1]!,
        { type: 'OpenExpression', value: '{{' },
        name,
        { type: 'CloseExpression', value: '}}' },
      ];
    })
    .filter((token, at, all) => !(token.type === 'CloseStatement' && all[at - 1]?.type === 'CloseExpression'));
}

/** Every loop can call itself. */
function withoutRecursive(tokens: readonly Token[]): Token[] {
  return tokens.filter(({ type, value }, at) => type !== 'Identifier' || value !== 'recursive' || tokens[at + 1]?.type !== 'CloseStatement');
}
