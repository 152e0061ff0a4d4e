/**
 * Finds the blocks of a reply that upstream finds with regular expressions (LeapLabTHU/Absolute-Zero-Reasoner a82124e, rewards/code_reward.py and
 * rewards/reward_managers.py): fences, headings, tags and sentences. Same results as Python's `re`, but linear in the text. Letter case is ignored.
 */
import { isWhitespace, skipWhitespace, WHITESPACE } from 'vf-search/metrics/python-text';

interface Span {
  readonly end: number;
  /** The index from which the search for the next block goes on. */
  readonly next: number;
}

/** Finds the end of a block's content; null if the block never ends. */
type Ending = (text: string, start: number) => Span | null;

interface BlockPattern {
  /** With the flags `g` and `i`. */
  readonly opening: RegExp;
  readonly ending: Ending;
  /** Whitespace before the content belongs to it. @default false */
  readonly keepsWhitespace?: boolean;
}

const FENCE = '```';
/** If case is ignored, Python matches the Turkish letters with an i, and the long s with an s. */
const LETTER_I = '[iİı]';
const LETTER_S = '[sſ]';

const NAMES = { input: `${LETTER_I}nput`, output: 'output', message: `me${LETTER_S}${LETTER_S}age` } as const;

/** The names that a block can have. */
export type BlockName = keyof typeof NAMES;

function patterns(make: (name: string) => BlockPattern): Readonly<Record<BlockName, BlockPattern>> {
  return { input: make(NAMES.input), output: make(NAMES.output), message: make(NAMES.message) };
}

const FENCES = patterns((name) => ({ opening: new RegExp(FENCE + name, 'gi'), ending: fenceEnd }));
const HEADINGS = patterns((name) => ({ opening: new RegExp(`# ${name}:`, 'gi'), ending: headingEnd }));
const CALLS = patterns((name) => ({ opening: new RegExp(`${name}[${WHITESPACE}]*\\(`, 'gi'), ending: callEnd, keepsWhitespace: true }));
const OPEN_TAGS = patterns((name) => ({ opening: new RegExp(`<${name}>`, 'gi'), ending: openTagEnd(new RegExp(`</${name}>`, 'gi')) }));
const CLOSED_TAGS = patterns((name) => ({ opening: new RegExp(`<${name}>`, 'gi'), ending: closedTagEnd(new RegExp(`</${name}>`, 'gi')) }));
const SENTENCES = patterns((name) => ({ opening: new RegExp(`the ${name} ${LETTER_I}${LETTER_S}`, 'gi'), ending: sentenceEnd }));

/** The contents of ```` ```name ```` fences, in order; whitespace before them and one line break after them are left out. */
export function fencedBlocks(text: string, name: BlockName): string[] {
  return blocks(text, FENCES[name]);
}

/** The texts after `# Name:`, each up to a line that begins with a fence, or to the end. */
export function headedBlocks(text: string, name: BlockName): string[] {
  return blocks(text, HEADINGS[name]);
}

/** The arguments of `name(...)`, up to the first closing bracket. */
export function calledBlocks(text: string, name: BlockName): string[] {
  return blocks(text, CALLS[name]);
}

/** The contents of `<name>` tags; the last may be open, and ends before the whitespace at the end of the text. */
export function openTaggedBlocks(text: string, name: BlockName): string[] {
  return blocks(text, OPEN_TAGS[name]);
}

/** The contents of `<name>` tags that are closed. */
export function taggedBlocks(text: string, name: BlockName): string[] {
  return blocks(text, CLOSED_TAGS[name]);
}

/** The text after the first "the name is", up to the end of the text, without its full stop. */
export function sentenceBlocks(text: string, name: BlockName): string[] {
  return blocks(text, SENTENCES[name]);
}

/** The contents of all fences, in order, without `python` before them. A fence that is not closed is ignored. */
export function codeBlocks(text: string): string[] {
  const found: string[] = [];
  for (let at = 0; ;) {
    const opening = text.indexOf(FENCE, at);
    if (opening === -1) return found;
    const start = codeStart(text, opening + FENCE.length);
    const ending = fenceEnd(text, start);
    if (ending === null) return found;
    found.push(text.slice(start, ending.end));
    at = ending.next;
  }
}

const PYTHON = 'python';

function codeStart(text: string, after: number): number {
  const name = text.slice(after, after + PYTHON.length).toLowerCase();
  if (name === PYTHON) return skipWhitespace(text, after + PYTHON.length);
  return text[after] === '\n' ? after + 1 : after;
}

/** A block that never ends also ends the search: the end of a later block would have ended it. */
function blocks(text: string, { opening, ending, keepsWhitespace }: BlockPattern): string[] {
  const found: string[] = [];
  for (opening.lastIndex = 0; opening.exec(text) !== null;) {
    const start = keepsWhitespace ? opening.lastIndex : skipWhitespace(text, opening.lastIndex);
    const at = ending(text, start);
    if (at === null) break;
    found.push(text.slice(start, at.end));
    opening.lastIndex = at.next;
  }
  return found;
}

/** `(.*?)\n?` and a fence. */
function fenceEnd(text: string, start: number): Span | null {
  const close = text.indexOf(FENCE, start);
  if (close === -1) return null;
  return { end: close > start && text[close - 1] === '\n' ? close - 1 : close, next: close + FENCE.length };
}

/** `(.*?)(?=\n```|$)`; in Python `$` is also before a line break at the very end. */
function headingEnd(text: string, start: number): Span {
  const fence = text.indexOf(`\n${FENCE}`, start);
  const last = Math.max(start, text.endsWith('\n') ? text.length - 1 : text.length);
  const end = fence === -1 ? last : Math.min(fence, last);
  return { end, next: end };
}

/** `(.*?)\)` */
function callEnd(text: string, start: number): Span | null {
  const end = text.indexOf(')', start);
  return end === -1 ? null : { end, next: end + 1 };
}

/** `(.*?)(?:</name>|\s*$)` */
function openTagEnd(closing: RegExp): Ending {
  return (text, start) => {
    closing.lastIndex = start;
    const close = closing.exec(text);
    if (close !== null) return { end: close.index, next: closing.lastIndex };
    return { end: contentEnd(text, start, text.length), next: text.length };
  };
}

/** `(.*?)\s*</name>` */
function closedTagEnd(closing: RegExp): Ending {
  return (text, start) => {
    closing.lastIndex = start;
    const close = closing.exec(text);
    return close === null ? null : { end: contentEnd(text, start, close.index), next: closing.lastIndex };
  };
}

/** `(.*?)\.?$` */
function sentenceEnd(text: string, start: number): Span {
  const last = Math.max(start, text.endsWith('\n') ? text.length - 1 : text.length);
  return { end: last > start && text[last - 1] === '.' ? last - 1 : last, next: text.length };
}

/** `end` without the whitespace before it. */
function contentEnd(text: string, start: number, end: number): number {
  let at = end;
  while (at > start && isWhitespace(text.charCodeAt(at - 1))) at--;
  return at;
}
