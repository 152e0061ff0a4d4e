/**
 * Scores spans of the passages as answers to a question. There is no model, only a table and a dozen surface features.
 *
 *   score(span) = KIND[kind of question][kind of span] + sum of WEIGHTS x features, at the occurrence with the highest score
 *
 *   rank       passages ranked above this one                near      how near the question's words are: mean of 1 / (1 + distance / 6),
 *   sentence   share of the question's words in its sentence           with more weight on rare words, as in `sentence`
 *   asked      share of its words that are in the question   repeated  ln of the number of occurrences in all passages
 *   cue        follows a word typical of such an answer      person    two or three words, in answer to "who"
 *   late       position in the passage, 0 to 1               apposed   followed by a comma or a bracket
 *   short      one word of at most three letters             demonym   one word in -an, -ish, -ese, -ench: American, Spanish
 *   inTitle    its last word is in the first title           located   follows "in" or "at", in answer to "where"
 *
 * Spans made only of the question's own words are excluded. The weights maximise the likelihood of the correct spans in nq-mini's training
 * rows and are rounded; the test rows were not used.
 */
import { type Passage, splitWords, type Word } from './extractive-passages.ts';
import { findSpans, isStopWord, type Span, type SpanKind } from './extractive-spans.ts';

type QuestionKind = 'who' | 'when' | 'where' | 'count' | 'other';

export interface Question {
  readonly kind: QuestionKind;
  /** Stems of its words, without stop words. */
  readonly stems: ReadonlySet<string>;
}

export interface Candidate {
  readonly text: string;
  readonly kind: SpanKind;
  readonly features: Features;
  readonly score: number;
}

const WEIGHTS = {
  rank: -1,
  near: 3.7,
  sentence: 0.9,
  asked: -2.7,
  repeated: 1,
  cue: 0.8,
  person: 1.4,
  late: -0.6,
  apposed: 0.4,
  short: -0.9,
  demonym: -0.5,
  inTitle: 1,
  located: 1.2,
};
type Features = Readonly<Record<keyof typeof WEIGHTS, number>>;
const FEATURES = Object.keys(WEIGHTS) as readonly (keyof Features)[];

// oxfmt-ignore
const KIND: Readonly<Record<QuestionKind, Record<SpanKind, number>>> = {
  who:   { name: 2.7, namePart: 0, place: -0.2, date: -0.8, year: -0.8, number: -0.8, quantity: -1.2, quoted: -0.2, title: 1.7, phrase: -1.4 },
  when:  { name: -0.9, namePart: -1.2, place: -0.4, date: 3.3, year: 2.9, number: -0.1, quantity: 0.1, quoted: -0.5, title: -0.9, phrase: -2.4 },
  where: { name: 1.5, namePart: -0.7, place: 2.6, date: -0.7, year: -1, number: -0.8, quantity: -0.3, quoted: -0.2, title: 0.8, phrase: -0.9 },
  count: { name: -0.4, namePart: -1.1, place: -0.4, date: -0.4, year: -0.1, number: 3, quantity: 1.8, quoted: -0.2, title: -0.3, phrase: -1.4 },
  other: { name: 0.5, namePart: -1.4, place: -1.1, date: 0.9, year: -0.3, number: 0.4, quantity: -0.3, quoted: 0.7, title: 1.9, phrase: -1.1 },
};

const CUES: Readonly<Record<QuestionKind, ReadonlySet<string>>> = {
  who: new Set('by as singer actor actress author artist band duo group writer songwriter musician president'.split(' ')),
  when: new Set('on in since until from of'.split(' ')),
  where: new Set('in at near from to on'.split(' ')),
  count: new Set('of about approximately over are has have with'.split(' ')),
  other: new Set('is are was called named as by the'.split(' ')),
};

export function parseQuestion(text: string): Question {
  const content = splitWords(text).filter((word) => word.stem !== '' && !isStopWord(word.text));
  return { kind: questionKind(` ${text.toLowerCase()} `), stems: new Set(content.map((word) => word.stem)) };
}

function questionKind(text: string): QuestionKind {
  if (/ how (many|much|long|old|far|tall|big|high|deep)\b| (number|population|percentage) of /.test(text)) return 'count';
  if (/ when\b| (what|which) (year|date|day|month|century)\b/.test(text)) return 'when';
  if (/ where\b| (what|which) (city|country|state|county|place|town|island|continent)\b/.test(text)) return 'where';
  if (/ who(se|m)?\b| (singer|actor|actress|author) /.test(text)) return 'who';
  return 'other';
}

/** Every distinct string that could be the answer, in order of first appearance. */
export function findCandidates(question: Question, passages: readonly Passage[]): Candidate[] {
  const found = new Map<string, { best: Candidate; count: number }>();
  const rarity = stemRarity(question, passages);
  for (const [rank, passage] of passages.entries()) {
    const closeness = closenessOf(passage, rarity);
    for (const span of findSpans(passage)) {
      const features = featuresOf(question, passage, span, rank, closeness);
      if (features === null) continue;
      const candidate = { text: span.text, kind: span.kind, features, score: scoreOf(question, span.kind, features) };
      const known = found.get(span.text);
      if (known === undefined) found.set(span.text, { best: candidate, count: 1 });
      else {
        known.count += 1;
        if (candidate.score > known.best.score) known.best = candidate;
      }
    }
  }
  return Array.from(found.values(), ({ best, count }) => {
    const repeated = Math.log(count);
    return { ...best, features: { ...best.features, repeated }, score: best.score + WEIGHTS.repeated * repeated };
  });
}

function scoreOf(question: Question, kind: SpanKind, features: Features): number {
  let score = KIND[question.kind][kind];
  for (const name of FEATURES) score += WEIGHTS[name] * features[name];
  return score;
}

/** ln(1 + sentences / sentences that contain it) for each of the question's stems that occurs in the passages. */
function stemRarity(question: Question, passages: readonly Passage[]): Map<string, number> {
  const counts = new Map<string, number>();
  let sentences = 0;
  for (const { words } of passages) {
    const last = new Map<string, number>();
    for (const { stem, sentence } of words) {
      if (!question.stems.has(stem) || last.get(stem) === sentence) continue;
      last.set(stem, sentence);
      counts.set(stem, (counts.get(stem) ?? 0) + 1);
    }
    sentences += (words.at(-1)?.sentence ?? -1) + 1;
  }
  return new Map([...counts].map(([stem, count]) => [stem, Math.log(1 + sentences / count)]));
}

/** For each word: its closeness to the question's words, and the share of them in its sentence. Both are 0 to 1. [W] */
interface Closeness {
  readonly near: Float64Array;
  readonly sentence: Float64Array;
}

function closenessOf({ words }: Passage, rarity: ReadonlyMap<string, number>): Closeness {
  const near = new Float64Array(words.length);
  const shares: number[] = [];
  let total = 0;
  for (const weight of rarity.values()) total += weight;
  for (const [stem, weight] of rarity) {
    const distances = distancesTo(stem, words);
    let last = -1;
    for (let i = 0; i < words.length; i++) {
      near[i]! += weight / total / (1 + distances[i]! / 6);
      const { sentence } = words[i]!;
      if (distances[i] !== 0 || sentence === last) continue;
      last = sentence;
      shares[sentence] = (shares[sentence] ?? 0) + weight / total;
    }
  }
  return { near, sentence: Float64Array.from(words, (word) => shares[word.sentence] ?? 0) };
}

/** Distance in words from each word to the nearest one with the stem; Infinity if there is none. [W] */
function distancesTo(stem: string, words: readonly Word[]): Float64Array {
  const distances = new Float64Array(words.length);
  let since = Infinity;
  for (let i = 0; i < words.length; i++) distances[i] = since = words[i]!.stem === stem ? 0 : since + 1;
  since = Infinity;
  for (let i = words.length - 1; i >= 0; i--) {
    since = words[i]!.stem === stem ? 0 : since + 1;
    if (since < distances[i]!) distances[i] = since;
  }
  return distances;
}

/** Null for a span of stop words or of the question's own words. */
function featuresOf(question: Question, { words, titleWords }: Passage, span: Span, rank: number, closeness: Closeness): Features | null {
  const { first, last, text } = span;
  let content = 0;
  let asked = 0;
  for (let i = first; i <= last; i++) {
    const word = words[i]!;
    if (word.stem === '' || isStopWord(word.text)) continue;
    content += 1;
    if (question.stems.has(word.stem)) asked += 1;
  }
  if (content === asked || /[<>]/.test(text)) return null;
  const length = last - first + 1;
  const before = words[first - 1]?.text.toLowerCase() ?? '';
  const cue = before === 'the' ? (words[first - 2]?.text.toLowerCase() ?? '') : before;
  const cues = CUES[question.kind];
  const after = words[last + 1]?.text;
  return {
    rank,
    near: Math.max(closeness.near[first]!, closeness.near[last]!),
    sentence: closeness.sentence[first]!,
    asked: asked / content,
    repeated: 0,
    cue: Number(cues.has(before) || cues.has(cue)),
    person: Number(question.kind === 'who' && (length === 2 || length === 3)),
    late: first / words.length,
    apposed: Number(after === ',' || after === '('),
    short: Number(length === 1 && text.length <= 3),
    demonym: Number(length === 1 && /(?:an|ish|ese|ench)$/.test(text)),
    inTitle: Number(rank === 0 && first >= titleWords && words.slice(0, titleWords).some(({ stem }) => stem !== '' && stem === words[last]!.stem)),
    located: Number(question.kind === 'where' && (before === 'in' || before === 'at')),
  };
}
