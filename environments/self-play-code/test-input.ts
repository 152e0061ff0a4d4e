/** Upstream's `has_test_input`: tells whether a program's text seems to contain its own test. Linear in the text, unlike the regular expressions of upstream. */
import { skipWhitespace, WHITESPACE } from 'vf-search/metrics/python-text';
import { beginsLine } from './python-definitions.ts';

const SPACE = `[${WHITESPACE}]*`;
const COMMENT = new RegExp(`#${SPACE}(?:te[sſ]t|example)`, 'i');
const WORDS = /[\p{L}\p{N}_]+/gu;
const PRINTED = new RegExp(`print${SPACE}\\(${SPACE}f\\(`);
const RESULTS = new Set(['expected', 'output', 'result']);

/** Tells whether the text has a comment about a test, a variable for its input or result, an `assert`, or a call of `f` that looks like one. */
export function hasTestInput(code: string): boolean {
  return COMMENT.test(code) || hasTestVariable(code) || PRINTED.test(code) || callsWithList(code) || endsLineWithCall(code);
}

/** A name with `input` in it, or the name of a result, to which something is assigned; `assert`; or a line that is `input` alone. */
function hasTestVariable(code: string): boolean {
  for (const { 0: word, index } of code.matchAll(WORDS)) {
    if (word === 'assert') return true;
    const end = index + word.length;
    if ((word.includes('input') || RESULTS.has(word)) && code[skipWhitespace(code, end)] === '=') return true;
    if (word === 'input' && isLine(code, index, end)) return true;
  }
  return false;
}

/** Only whitespace is between the word and line breaks or ends of the text; a break can be anywhere in it. */
function isLine(code: string, start: number, end: number): boolean {
  const after = skipWhitespace(code, end);
  if (after < code.length && !code.slice(end, after).includes('\n')) return false;
  return beginsLine(code, start);
}

/** `f\(\[.*\]\)` on one line. */
function callsWithList(code: string): boolean {
  return code.split('\n').some((line) => {
    const opening = line.indexOf('f([');
    return opening !== -1 && line.lastIndexOf('])') >= opening + 3;
  });
}

/** `f\([^)]*\)\s*(#|$)`, where `$` is the end of any line. */
function endsLineWithCall(code: string): boolean {
  for (let at = code.indexOf('f('); at !== -1;) {
    const close = code.indexOf(')', at + 2);
    if (close === -1) return false;
    const after = skipWhitespace(code, close + 1);
    if (after === code.length || code[after] === '#' || code.slice(close + 1, after).includes('\n')) return true;
    at = code.indexOf('f(', close + 1);
  }
  return false;
}
