/** The spans of a passage that look like answers. */
import type { Passage, Word } from './extractive-passages.ts';

export type SpanKind = 'name' | 'namePart' | 'place' | 'date' | 'year' | 'number' | 'quantity' | 'quoted' | 'title' | 'phrase';

export interface Span {
  readonly kind: SpanKind;
  readonly text: string;
  /** Words `[first, last]` of the passage. */
  readonly first: number;
  readonly last: number;
}

const STOP_WORDS = new Set(
  (
    'a an the and or but nor of in on at to by for from with as is are was were be been being am do does did done has have had having it its he she they ' +
    'his her their them him i you we us our your who whom whose what which when where why how that this these those there here then than so if into about ' +
    'over under after before between during through while also not no can could will would shall should may might must such other some any each all both ' +
    'more most one first last new up out off only own same very'
  ).split(' '),
);
const MONTHS = new Set('January February March April May June July August September October November December'.split(' '));
const NUMBER_WORDS = new Set(
  'two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty'.split(
    ' ',
  ),
);
const SCALES = new Set(['million', 'billion', 'trillion', 'percent', '%']);
/** Words that may occur inside a name without a capital. */
const JOINERS = new Set(['of', 'the', 'de', 'la', 'von', 'van', 'del', 'der', 'da', '&']);
const LONGEST_NAME = 8;
const LONGEST_PHRASE = 4;

export function isStopWord(word: string): boolean {
  return STOP_WORDS.has(word.toLowerCase());
}

/** All candidate spans. They may overlap, and the same words may form spans of several kinds. */
export function findSpans(passage: Passage): Span[] {
  const { words, titleWords, text } = passage;
  const spans: Span[] = [];
  const add = (kind: SpanKind, first: number, last: number) =>
    void spans.push({ kind, text: text.slice(words[first]!.start, words[last]!.end), first, last });
  if (titleWords > 0) add('title', 0, titleWords - 1);
  addNames(words, titleWords, add);
  addDates(words, titleWords, add);
  addNumbers(words, titleWords, add);
  addQuotes(words, titleWords, add);
  addPhrases(words, titleWords, add);
  return spans;
}

type Add = (kind: SpanKind, first: number, last: number) => void;

const isCapital = (word: Word | undefined) => word !== undefined && /^\p{Lu}/u.test(word.text);
const isYear = (word: Word | undefined) => word !== undefined && /^(?:1\d|20)\d{2}(?:[–-]\d{2,4})?$/.test(word.text);
const isDay = (word: Word | undefined) => word !== undefined && /^\d{1,2}$/.test(word.text);
const isMonth = (word: Word | undefined) => word !== undefined && MONTHS.has(word.text);

/** Runs of capitalised words with their joiners, the parts of long runs, and pairs of runs joined by a comma. */
function addNames(words: readonly Word[], from: number, add: Add): void {
  let previous: { first: number; last: number } | undefined;
  for (let i = from; i < words.length; i++) {
    if (!isCapital(words[i]) || isMonth(words[i])) continue;
    const end = nameEnd(words, i);
    const first = end > i && isStopWord(words[i]!.text) ? i + 1 : i;
    if (end > first || !isStopWord(words[first]!.text)) {
      add('name', first, end);
      if (end - first >= 2) {
        add('namePart', end - 1, end);
        add('namePart', first, first + 1);
      }
      if (previous?.last === first - 2 && words[first - 1]!.text === ',') add('place', previous.first, end);
      previous = { first, last: end };
    }
    i = end;
  }
}

/** Index of the last word of the name that begins at `first`. */
function nameEnd(words: readonly Word[], first: number): number {
  let end = first;
  for (let i = first + 1; i < words.length && i < first + LONGEST_NAME; i++) {
    const word = words[i]!;
    if (isCapital(word) && !isMonth(word)) end = i;
    else if (word.text === '.' && words[i - 1]!.text.length === 1) continue;
    else if (!(JOINERS.has(word.text) || (end === i - 1 && /^\d{1,3}$/.test(word.text)))) break;
    else if (/^\d/.test(word.text)) end = i;
  }
  return end;
}

/** `May 18, 2018`, `18 May 2018`, `May 2018`, `May 18`, `2018`, and the year inside a date on its own. */
function addDates(words: readonly Word[], from: number, add: Add): void {
  for (let i = from; i < words.length; i++) {
    if (isYear(words[i])) add('year', i, i);
    if (!isMonth(words[i])) continue;
    if (isDay(words[i + 1])) {
      const year = words[i + 2]?.text === ',' ? i + 3 : i + 2;
      add('date', i, isYear(words[year]) ? year : i + 1);
    } else if (isYear(words[i + 1])) add('date', isDay(words[i - 1]) ? i - 1 : i, i + 1);
    else if (isDay(words[i - 1])) add('date', i - 1, i);
  }
}

/** Digits and small number words with their currency, scale or percent sign; and the same with the noun that is counted. */
function addNumbers(words: readonly Word[], from: number, add: Add): void {
  for (let i = from; i < words.length; i++) {
    const { text } = words[i]!;
    if (isYear(words[i]) || !(/^\d/.test(text) || NUMBER_WORDS.has(text.toLowerCase()))) continue;
    const end = SCALES.has(words[i + 1]?.text ?? '') ? i + 1 : i;
    add('number', /^[$£€]$/.test(words[i - 1]?.text ?? '') ? i - 1 : i, end);
    const noun = words[end + 1];
    if (noun !== undefined && noun.stem !== '' && !isStopWord(noun.text)) add('quantity', i, end + 1);
  }
}

function addQuotes(words: readonly Word[], from: number, add: Add): void {
  let open = -1;
  for (let i = from; i < words.length; i++) {
    const { text } = words[i]!;
    if (text === '“' || (text === '"' && open < 0)) open = i;
    else if (text === '”' || text === '"') {
      if (open >= 0 && i - open > 1 && i - open <= LONGEST_NAME + 1) add('quoted', open + 1, i - 1);
      open = -1;
    }
  }
}

/** Runs of lower-case content words: the whole run, its last two words, and its last word. */
function addPhrases(words: readonly Word[], from: number, add: Add): void {
  const fits = (word: Word | undefined) => word !== undefined && /^\p{Ll}/u.test(word.text) && !isStopWord(word.text);
  for (let i = from; i < words.length; i++) {
    if (!fits(words[i])) continue;
    let end = i;
    while (fits(words[end + 1]) && end - i + 1 < LONGEST_PHRASE) end++;
    add('phrase', i, end);
    if (end - i >= 2) add('phrase', end - 1, end);
    if (end > i) add('phrase', end, end);
    i = end;
  }
}
