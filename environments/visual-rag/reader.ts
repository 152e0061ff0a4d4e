/**
 * The built-in reader, which takes the generator's place if no model does. It answers with words of the evidence that are large enough to read there;
 * it knows tables (row and column), charts, labelled lines, years and pairs of figures, and no language.
 */
import { scriptedModel } from 'vf-search';
import { contentWords, plainWords } from './question-words.ts';
import { linesOf, type ShownWord } from './reading.ts';

/** The `data` of a generator's request: a generator in this process reads it instead of the messages. */
export interface GeneratorData {
  readonly question: string;
  /** The words of every picture of the evidence, in the order in which the generator sees them. */
  readonly evidence: readonly (readonly ShownWord[])[];
}

export const BUILTIN_READER = scriptedModel({
  name: 'builtin-reader',
  replies: (_, { data }) => {
    if (!isGeneratorData(data)) throw new TypeError('The built-in reader needs the data of a generator request, but the request has none.');
    return readAnswer(data.question, data.evidence);
  },
});

/** The words of the evidence that answer the question, or an empty text. */
export function readAnswer(question: string, evidence: readonly (readonly ShownWord[])[]): string {
  const pictures = evidence.map((words) => words.filter(({ text }) => text !== null));
  const [first, second] = pairOf(question) ?? [question];
  const found = [first, ...(second === undefined ? [] : [second])].map((each) => bestSpan(each, pictures));
  if (second === undefined) return found[0]!;
  return /\bdiffer\b/i.test(question) ? differenceOf(found) : found.filter((each) => each !== '').join(' and ');
}

/** Two questions from one that asks for two figures: `For X in Y: what are the A and the B?`, `For X in Y: by how much do the A and the B differ?`. */
function pairOf(question: string): readonly [string, string] | null {
  const parts = /^(.*): (?:what are|by how much do) the (.+?) and the (.+?)(?: differ.*)?\?$/i.exec(question);
  if (parts === null) return null;
  const [, context, one, other] = parts as unknown as readonly [string, string, string, string];
  return [`${context}: ${one}`, `${context}: ${other}`];
}

function differenceOf(figures: readonly string[]): string {
  const [a, b] = figures.map((figure) => Number(figure.replaceAll(',', '')));
  const difference = Math.abs(a! - b!);
  return Number.isFinite(difference) && figures.every((figure) => figure !== '') ? `${difference}` : '';
}

type AnswerKind = 'name' | 'year' | 'extreme year' | 'number';

/** The kind of words that answers the question. */
function answerKind(question: string): AnswerKind {
  if (/^who\b/i.test(question)) return 'name';
  if (/^(?:when|in which year)\b/i.test(question)) return /\b(?:highest|largest|most)\b/i.test(question) ? 'extreme year' : 'year';
  return 'number';
}

interface Sought {
  readonly kind: AnswerKind;
  /** Words of the question. */
  readonly wanted: ReadonlySet<string>;
}

interface Picture {
  readonly words: readonly ShownWord[];
  /** The words by the number of their line. */
  readonly lines: ReadonlyMap<number, readonly ShownWord[]>;
  /** The weight of every word of the question. */
  readonly weights: ReadonlyMap<string, number>;
}

/** The span that the words of the question support best; the earlier picture wins a tie. */
function bestSpan(question: string, pictures: readonly (readonly ShownWord[])[]): string {
  const sought = { kind: answerKind(question), wanted: contentWords(question) };
  let best = { text: '', score: -Infinity };
  for (const words of pictures) {
    const weights = wordWeights(words, sought.wanted);
    const lines = linesOf(words).map(({ words: line }) => line);
    const picture = { words, weights, lines: new Map(lines.map((line) => [line[0]!.line, line])) };
    // A word anywhere on the picture supports the picture as a whole.
    const whole = [...weights.values()].reduce((sum, weight) => sum + weight, 0) / 4;
    const spans =
      sought.kind === 'extreme year' ? [yearOfLargest(words)].filter((span) => span !== null) : lines.flatMap((line) => spansOf(line, sought));
    for (const span of spans) {
      const score = whole + supportOf(span, picture);
      if (score > best.score) best = { text: textOf(span), score };
    }
  }
  return best.text;
}

/** The weight of every word of the question that is on the picture. A word on many lines, such as the name of a company in every footer, weighs less. */
function wordWeights(words: readonly ShownWord[], wanted: ReadonlySet<string>): ReadonlyMap<string, number> {
  const lines = new Map<string, Set<number>>();
  for (const { text, line } of words)
    for (const word of plainWords(text!)) if (wanted.has(word)) lines.set(word, (lines.get(word) ?? new Set()).add(line));
  return new Map([...lines].map(([word, { size }]) => [word, 1 / size]));
}

/** Runs of words in a line that can be the answer. */
function spansOf(line: readonly ShownWord[], { wanted, kind }: Sought): (readonly ShownWord[])[] {
  const isNew = ({ text }: ShownWord) => !plainWords(text!).some((word) => wanted.has(word));
  if (kind === 'name') return runsOf(line, (word) => /^\p{Lu}/u.test(word.text!) && isNew(word)).filter((run) => run.length === 2);
  return line
    .filter((word, i) => isNew(word) && (kind === 'year' ? isYear(word.text!) : isFigure(word.text!, i === 0 ? null : line[i - 1]!.text!)))
    .map((word) => [word]);
}

function isYear(text: string): boolean {
  return /^(?:1[89]|20)\d\d[,.]?$/.test(text);
}

/** True for a number, unless it is a year, numbers a list (`4.` at the start of a line) or numbers a page (after a dot in a footer). */
function isFigure(text: string, before: string | null): boolean {
  return /^-?\d[\d.,]*%?$/.test(text) && !isYear(text) && !(before === null && text.endsWith('.')) && before !== '·';
}

/** The year in one column with the largest figure. */
function yearOfLargest(words: readonly ShownWord[]): readonly ShownWord[] | null {
  const figures = words.filter(({ text }) => isFigure(text!, null));
  const dated = figures.flatMap((figure) => {
    const year = words.find((word) => isYear(word.text!) && isInColumn(figure, word));
    return year === undefined ? [] : [{ year, value: Number(figure.text!.replaceAll(',', '')) }];
  });
  const largest = dated.reduce<(typeof dated)[number] | null>((best, each) => (best === null || each.value > best.value ? each : best), null);
  return largest === null ? null : [largest.year];
}

function runsOf(line: readonly ShownWord[], isPart: (word: ShownWord) => boolean): ShownWord[][] {
  const runs: ShownWord[][] = [];
  let run: ShownWord[] = [];
  for (const word of line) {
    if (isPart(word)) run.push(word);
    else if (run.length > 0) {
      runs.push(run);
      run = [];
    }
  }
  return run.length > 0 ? [...runs, run] : runs;
}

/** The weight of the words in the span's own line and in the line right above it (without one, in the label of its column), and in the label of its row. */
function supportOf(span: readonly ShownWord[], picture: Picture): number {
  const { words, weights } = picture;
  const own = span[0]!;
  const above = lineAbove(own, picture);
  const lines = new Set([own.line, above ?? labelOf(own, picture, isInColumn, 1), labelOf(own, picture, isInRow, 0)]);
  const found = new Set(words.flatMap(({ text, line }) => (lines.has(line) ? plainWords(text!).filter((word) => weights.has(word)) : [])));
  return [...found].reduce((sum, word) => sum + weights.get(word)!, 0);
}

/** The greatest number of words of a label: longer lines are headings and sentences. */
const LABEL_WORDS = 2;

/** The line of the nearest label in the row (axis 0) or column (axis 1) of a word: not a figure, and with few words. Null if there is none. */
function labelOf(own: ShownWord, { words, lines }: Picture, isAligned: (own: ShownWord, word: ShownWord) => boolean, axis: 0 | 1): number | null {
  const aligned = words.filter((word) => word.line !== own.line && isAligned(own, word) && !isFigure(word.text!, null));
  const labels = aligned.filter(({ line }) => lines.get(line)!.length <= LABEL_WORDS);
  const gap = ({ box }: ShownWord) => Math.max(own.box[axis] - box[axis + 2]!, box[axis] - own.box[axis + 2]!);
  return labels.reduce<ShownWord | null>((nearest, word) => (nearest === null || gap(word) < gap(nearest) ? word : nearest), null)?.line ?? null;
}

/** The line whose words end less than two heights above this one's line, over the same stretch; null if there is none. */
function lineAbove(own: ShownWord, { words, lines }: Picture): number | null {
  const line = lines.get(own.line)!;
  const [left, right] = [Math.min(...line.map(({ box }) => box[0])), Math.max(...line.map(({ box }) => box[2]))];
  const height = own.box[3] - own.box[1];
  const close = words.filter(
    ({ box, line: other }) => other !== own.line && box[3] <= own.box[1] && own.box[1] - box[3] < 2 * height && box[0] < right && box[2] > left,
  );
  return close.reduce<ShownWord | null>((nearest, word) => (nearest === null || word.box[3] > nearest.box[3] ? word : nearest), null)?.line ?? null;
}

function isInRow(own: ShownWord, { box }: ShownWord): boolean {
  const centre = (own.box[1] + own.box[3]) / 2;
  return box[1] <= centre && centre <= box[3];
}

/** True if either is over or under the middle of the other. */
function isInColumn(own: ShownWord, { box }: ShownWord): boolean {
  const [centre, other] = [(own.box[0] + own.box[2]) / 2, (box[0] + box[2]) / 2];
  return (box[0] <= centre && centre <= box[2]) || (own.box[0] <= other && other <= own.box[2]);
}

function textOf(span: readonly ShownWord[]): string {
  return span
    .map(({ text }) => text)
    .join(' ')
    .replace(/(?<![.,;:])[.,;:]+$/, '');
}

function isGeneratorData(data: unknown): data is GeneratorData {
  return typeof data === 'object' && data !== null && 'question' in data && 'evidence' in data;
}
