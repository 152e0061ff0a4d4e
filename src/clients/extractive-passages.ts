/** Parses the passages of an information block (`Doc 1(Title: ...) text`) into words and sentences for the extractive baseline. */

export interface Word {
  readonly text: string;
  /** A crude stem: lower case, without a plural or possessive s, at most six letters. Empty for punctuation. */
  readonly stem: string;
  readonly start: number;
  readonly end: number;
  /** Index of its sentence in the passage; the title is sentence 0. */
  readonly sentence: number;
}

export interface Passage {
  /** The title, a line break, then the body. */
  readonly text: string;
  readonly words: readonly Word[];
  /** Number of the words that belong to the title; they come first. */
  readonly titleWords: number;
}

const WORD = /\d{1,3}(?:,\d{3})+(?![\d,])|[\p{L}\p{N}][\p{L}\p{N}\p{M}]*(?:[.'’&–-][\p{L}\p{N}]+)*|[^\s\p{L}\p{N}]/gu;
const SENTENCE_END = new Set(['.', '!', '?', ';']);
/** A full stop after one of these, or after a single letter, does not end a sentence. */
const ABBREVIATIONS = new Set(['dr', 'jr', 'mr', 'mrs', 'ms', 'no', 'sr', 'st', 'vs']);

/** The passages of all information blocks, in order. A block of other text, such as a tool's answer, is one passage without a title. */
export function parsePassages(blocks: readonly string[]): Passage[] {
  return blocks.flatMap((block) => {
    const heads = [...block.matchAll(/(?:^|\n)Doc \d+\(Title: /g)];
    if (heads.length === 0) return block.trim() === '' ? [] : [bodyPassage(block)];
    return heads.map((head, i) => toPassage(block.slice(head.index + head[0].length, heads[i + 1]?.index ?? block.length)));
  });
}

function stemOf(word: string): string {
  const lower = word.toLowerCase().replace(/['’]s$/, '');
  return (lower.length > 3 && lower.endsWith('s') ? lower.slice(0, -1) : lower).slice(0, 6);
}

export function splitWords(text: string, firstSentence = 0): Word[] {
  let sentence = firstSentence;
  let previous = '';
  return Array.from(text.matchAll(WORD), ({ 0: word, index }) => {
    const isWord = /^[\p{L}\p{N}]/u.test(word);
    const split = { text: word, stem: isWord ? stemOf(word) : '', start: index, end: index + word.length, sentence };
    if (SENTENCE_END.has(word) && !(word === '.' && (previous.length === 1 || ABBREVIATIONS.has(previous.toLowerCase())))) sentence += 1;
    previous = word;
    return split;
  });
}

/** Reads `"Title (film)") text`. A quoted title ends at its closing quote, any other at the first bracket; quotes and disambiguation are dropped. */
function toPassage(document: string): Passage {
  const quoted = document.startsWith('"') ? document.indexOf('") ') : -1;
  const end = quoted >= 0 ? quoted + 1 : document.indexOf(') ');
  const title =
    end < 0
      ? ''
      : document
          .slice(0, end)
          .replace(/^"|"$/g, '')
          .replace(/ \([^)]*\)$/, '');
  const body = end < 0 ? document : document.slice(end + 2);
  return passageOf(title, body);
}

/** A passage without a title. */
export function bodyPassage(text: string): Passage {
  return passageOf('', text);
}

function passageOf(title: string, body: string): Passage {
  const titleWords = splitWords(title).map((word) => ({ ...word, sentence: 0 }));
  const offset = title.length + 1;
  const bodyWords = splitWords(body, 1).map((word) => ({ ...word, start: word.start + offset, end: word.end + offset }));
  return { text: `${title}\n${body}`, words: [...titleWords, ...bodyWords], titleWords: titleWords.length };
}
