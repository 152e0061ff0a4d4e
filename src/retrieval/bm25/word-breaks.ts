/**
 * Splits text into words like Lucene's StandardTokenizer: UAX #29 word boundaries, one word per Han or Hiragana character, one per run of a
 * South-East Asian script, emoji sequences as words. A word has at most 255 UTF-16 units; a longer one is cut there and the scan restarts, so that
 * the time is linear for any text. Source: the grammar of Lucene 8 to 10 (StandardTokenizerImpl).
 */
import {
  classOf,
  COMPLEX_CONTEXT,
  COMPLEX_EXTEND,
  DOUBLE_QUOTE,
  EMOJI,
  EMOJI_LETTER,
  EMOJI_MODIFIER,
  EMOJI_SELECTOR,
  EXTEND,
  EXTEND_NUM_LET,
  HEBREW_LETTER,
  IDEOGRAPH,
  KATAKANA,
  KEYCAP_BASE,
  LETTER,
  MID_LETTER,
  MID_NUM,
  MID_NUM_LET,
  NUMERIC,
  OTHER,
  REGIONAL_INDICATOR,
  SINGLE_QUOTE,
  TEXT_SELECTOR,
  ZERO_WIDTH_JOINER,
} from './word-break-classes.ts';

/** StandardTokenizer's default maximum. */
const MAX_WORD_UNITS = 255;
const KEYCAP = '\u20e3';
/** State after a Hebrew letter and its quote: letters and digits may follow, but no further mark. */
const CLOSED_LETTER = -1;

export interface WordSink {
  /** Called with every word, in order. */
  word(text: string): void;
}

/** Calls `sink.word` with every word of `text`, in order. */
export function scanWords(text: string, sink: WordSink): void {
  const length = text.length;
  let at = 0;
  while (at < length) {
    const unit = text.charCodeAt(at);
    const first = unit < 0xd800 ? classOf[unit]! : classOf[text.codePointAt(at)!]!;
    if (first === OTHER) {
      at++;
      continue;
    }
    const limit = windowEnd(text, at);
    let end = plainEnd(text, at, limit);
    if (end === at || continues(text, end, limit)) end = first <= EXTEND_NUM_LET ? wordEnd(text, at, limit) : otherWordEnd(text, at, limit, first);
    if (end > at) {
      sink.word(text.slice(at, end));
      at = end;
    } else {
      at = first === EXTEND_NUM_LET || first === ZERO_WIDTH_JOINER ? afterIdleRun(text, at, first) : at + (unit < 0xd800 ? 1 : widthAt(text, at));
    }
  }
}

/** End of the ASCII letters and digits from `at`; for most words this is the whole word. */
function plainEnd(text: string, at: number, limit: number): number {
  while (at < limit) {
    const unit = text.charCodeAt(at);
    if (unit >= 0x80) break;
    const found = classOf[unit]!;
    if (found !== LETTER && found !== NUMERIC) break;
    at++;
  }
  return at;
}

/** False if the character at `at` certainly ends a word. */
function continues(text: string, at: number, limit: number): boolean {
  if (at >= limit) return false;
  const unit = text.charCodeAt(at);
  return unit >= 0x80 || classOf[unit] !== OTHER;
}

/** Code units of the character at `at`. */
function widthAt(text: string, at: number): number {
  return text.codePointAt(at)! > 0xffff ? 2 : 1;
}

function classAt(text: string, at: number, limit: number): number {
  return at < limit ? classOf[text.codePointAt(at)!]! : OTHER;
}

/** The largest possible end of a word that starts at `at`; never splits a surrogate pair. */
function windowEnd(text: string, at: number): number {
  const end = at + MAX_WORD_UNITS;
  if (end >= text.length) return text.length;
  return text.codePointAt(end - 1)! > 0xffff ? end - 1 : end;
}

/** End of the character at `at` and everything that continues it. */
function unitEnd(text: string, at: number, limit: number): number {
  return extendEnd(text, at + widthAt(text, at), limit);
}

/** End of the characters from `at` that continue the preceding character (WB4). */
function extendEnd(text: string, at: number, limit: number): number {
  while (at < limit) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80 || classAt(text, at, limit) < EXTEND) break;
    at += widthAt(text, at);
  }
  return at;
}

/** End of the letters, digits, Katakana and underscores from `start`; `start` itself if there are only underscores. WB5 to WB13b. */
function wordEnd(text: string, start: number, limit: number): number {
  let at = start;
  let last = OTHER;
  let holdsWord = false;
  while (at < limit) {
    const unit = text.charCodeAt(at);
    let next = unit < 0xd800 ? classOf[unit]! : classAt(text, at, limit);
    if (next === EMOJI_LETTER) next = LETTER;
    if (next >= EXTEND) {
      at += unit < 0xd800 ? 1 : widthAt(text, at);
      continue;
    }
    if (next === OTHER || next > DOUBLE_QUOTE) break;
    if (next <= NUMERIC) {
      if (last === KATAKANA) break;
      holdsWord = true;
    } else if (next === KATAKANA) {
      if (last !== OTHER && last !== KATAKANA && last !== EXTEND_NUM_LET) break;
      holdsWord = true;
    } else if (next !== EXTEND_NUM_LET) {
      const afterMark = unitEnd(text, at, limit);
      const joined = joinedClass(last, next, classAt(text, afterMark, limit));
      if (joined === OTHER) break;
      last = joined;
      at = joined === CLOSED_LETTER && next === SINGLE_QUOTE ? afterMark : unitEnd(text, afterMark, limit);
      continue;
    }
    last = next;
    at += unit < 0xd800 ? 1 : widthAt(text, at);
  }
  return holdsWord ? at : start;
}

/** The new last class after a mark (full stop, comma, quote, ...) between `last` and `following`, or OTHER if the mark ends the word. */
function joinedClass(last: number, mark: number, following: number): number {
  if (following === EMOJI_LETTER) following = LETTER;
  const followedByLetter = following === LETTER || following === HEBREW_LETTER;
  const marksLetters = mark === MID_LETTER || mark === MID_NUM_LET || mark === SINGLE_QUOTE;
  if (marksLetters && followedByLetter && (last === LETTER || last === HEBREW_LETTER)) {
    return last === HEBREW_LETTER && mark === SINGLE_QUOTE ? following : LETTER;
  }
  const marksDigits = mark === MID_NUM || mark === MID_NUM_LET || mark === SINGLE_QUOTE;
  if (marksDigits && last === NUMERIC && following === NUMERIC) return NUMERIC;
  if (last !== HEBREW_LETTER) return OTHER;
  return mark === SINGLE_QUOTE || (mark === DOUBLE_QUOTE && following === HEBREW_LETTER) ? CLOSED_LETTER : OTHER;
}

/** End of a word that begins with a class that wordEnd does not handle; `start` if it is not a word. */
function otherWordEnd(text: string, start: number, limit: number, first: number): number {
  switch (first) {
    case IDEOGRAPH:
      return unitEnd(text, start, limit);
    case COMPLEX_CONTEXT:
    case COMPLEX_EXTEND:
      return complexEnd(text, start, limit);
    case EMOJI_LETTER:
      return Math.max(wordEnd(text, start, limit), emojiEnd(text, start, limit));
    case EMOJI:
    case EMOJI_MODIFIER:
    case ZERO_WIDTH_JOINER:
      return emojiEnd(text, start, limit);
    case REGIONAL_INDICATOR: {
      const second = unitEnd(text, start, limit);
      return classAt(text, second, limit) === REGIONAL_INDICATOR ? unitEnd(text, second, limit) : start;
    }
    case KEYCAP_BASE:
      return keycapEnd(text, start, limit);
    default:
      return start;
  }
}

function complexEnd(text: string, start: number, limit: number): number {
  let at = start;
  while (classAt(text, at, limit) === COMPLEX_CONTEXT || classAt(text, at, limit) === COMPLEX_EXTEND) at = unitEnd(text, at, limit);
  return at;
}

/** End of the characters from `at` that continue an emoji: all except the two presentation selectors. */
function emojiExtendEnd(text: string, at: number, limit: number): number {
  for (;;) {
    const next = classAt(text, at, limit);
    if (next < EXTEND || next === TEXT_SELECTOR || next === EMOJI_SELECTOR) return at;
    at += widthAt(text, at);
  }
}

/** End of the emoji sequence from `start`: emoji joined by zero-width joiners, each with its modifiers and presentation selector. */
function emojiEnd(text: string, start: number, limit: number): number {
  let end = start;
  let at = start;
  for (;;) {
    while (classAt(text, at, limit) === ZERO_WIDTH_JOINER) at++;
    const next = classAt(text, at, limit);
    if (next === EMOJI_MODIFIER && (at === start || end > start)) end = emojiExtendEnd(text, at, limit);
    else if (next === EMOJI || next === EMOJI_LETTER) {
      end = emojiExtendEnd(text, at + widthAt(text, at), limit);
      if (classAt(text, end, limit) === EMOJI_SELECTOR) end++;
    } else return end;
    at = end;
    // The characters that continue an emoji include joiners, so the last one may belong to the next emoji.
    if (text.charCodeAt(at - 1) !== 0x200d && classAt(text, at, limit) !== ZERO_WIDTH_JOINER) return end;
  }
}

function keycapEnd(text: string, start: number, limit: number): number {
  const end = emojiExtendEnd(text, start + 1, limit);
  if (classAt(text, end, limit) === EMOJI_SELECTOR && end + 1 < limit && text[end + 1] === KEYCAP) return emojiExtendEnd(text, end + 1, limit);
  return text.slice(start, end).includes(KEYCAP) ? end : start;
}

/**
 * The place at which to continue after a run of underscores (or joiners) that began no word. The characters after it may still form a word with the end of the run,
 * if the window from `start` was too short to reach them.
 */
function afterIdleRun(text: string, start: number, first: number): number {
  let end = start;
  let next = first;
  while (next === first || next === EXTEND) {
    end += widthAt(text, end);
    next = classAt(text, end, text.length);
  }
  const joins = first === EXTEND_NUM_LET ? next !== OTHER && next <= KATAKANA : next === EMOJI;
  return joins || next === EMOJI_LETTER ? Math.max(start + 1, end - MAX_WORD_UNITS + 1) : end;
}
