/** Finds the sentence of the shown passages that holds a golden answer, for demonstrations of search. Pure text. */
import { normalizeAnswer } from 'vf-search/environments/search-r1';

export interface ShownPassage {
  /** The environment's number, from 1 up. */
  readonly number: number;
  readonly title: string;
  readonly text: string;
}

export interface Evidence {
  readonly passage: number;
  readonly title: string;
  /** Part of one sentence, at most `MOST_WORDS` long. */
  readonly quote: string;
  /** The golden answer in the quote: in the spelling of the passage if that is the same text in other letters, else in that of the data set. */
  readonly answer: string;
}

/** A quote is sampled token by token, so a long sentence is cut around the answer. */
const MOST_WORDS = 24;
const SENTENCE_END = /(?<=[.!?]["”)]?)\s+(?=["“(]?[\p{Lu}\d])/u;
const PASSAGE = /^Doc (\d+)\(Title: "?(.*?)"?\) (.*)$/gm;
/** Words of a question that do not point to its answer. */
const COMMON = new Set(
  'who what when where which how many much is are was were do does did has have in on of for to from by and or at it its that with as'.split(' '),
);

/** The passages of an observation of search-r1. */
export function shownPassages(observation: string): ShownPassage[] {
  return [
    ...observation
      .replaceAll(/<\/?information>/g, '')
      .trim()
      .matchAll(PASSAGE),
  ].map(([, number, title, text]) => ({
    number: Number(number),
    title: title!,
    text: text!,
  }));
}

/** The best sentence: most words of the question in it and in its title, then the first. Null if no passage holds a golden answer as whole words. */
export function findEvidence(question: string, goldenAnswers: readonly string[], passages: readonly ShownPassage[]): Evidence | null {
  const asked = contentWords(question);
  const shared = (text: string) => {
    const words = contentWords(text);
    return [...asked].filter((word) => words.has(word)).length;
  };
  let best: { readonly evidence: Evidence; readonly score: number } | null = null;
  for (const { number, title, text } of passages) {
    for (const sentence of text.split(SENTENCE_END)) {
      const answer = goldenAnswers.find((golden) => holds(sentence, golden));
      if (answer === undefined) continue;
      const score = shared(sentence) + shared(title);
      if (best !== null && score <= best.score) continue;
      const quote = around(sentence, answer);
      best = { evidence: { passage: number, title, quote, answer: asSpelled(quote, answer) }, score };
    }
  }
  return best?.evidence ?? null;
}

/** Tells whether the text contains the answer as whole words, as exact match compares them. Answers that normalise to nothing are never contained. */
export function holds(text: string, answer: string): boolean {
  const golden = normalizeAnswer(answer);
  return golden !== '' && ` ${normalizeAnswer(text)} `.includes(` ${golden} `);
}

/** At most `MOST_WORDS` words of the sentence with the answer among them, or the whole sentence if the answer is longer. */
function around(sentence: string, answer: string): string {
  const words = sentence.trim().split(/\s+/);
  const windows = Array.from({ length: Math.max(0, words.length - MOST_WORDS) + 1 }, (_, start) => words.slice(start, start + MOST_WORDS).join(' '));
  const holding = windows.filter((window) => holds(window, answer));
  // They overlap: in the first the answer is last, in the last it is first. The text before an answer is more informative than the text after it.
  return holding[Math.floor(holding.length / 3)] ?? words.join(' ');
}

/** The answer in the quote's spelling, if the quote has it in other letters. */
function asSpelled(quote: string, answer: string): string {
  const at = quote.toLowerCase().indexOf(answer.toLowerCase());
  return at === -1 ? answer : quote.slice(at, at + answer.length);
}

function contentWords(text: string): ReadonlySet<string> {
  return new Set(
    normalizeAnswer(text)
      .split(' ')
      .filter((word) => word !== '' && !COMMON.has(word)),
  );
}
