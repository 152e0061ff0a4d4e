/**
 * The built-in reader: takes the generator's place where no model does. It answers with words that stand in the evidence and are large enough to read there;
 * it knows tables (row and column), labelled lines and years, and no language.
 */
import { scriptedModel } from 'vf-search';
import { contentWords, plainWords } from './question-words.ts';
import { linesOf, type ShownWord } from './reading.ts';

/** The `data` of a generator's request: what a generator in this process reads instead of the messages. */
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

/** The words that answer the question by the evidence, or an empty text. */
export function readAnswer(question: string, evidence: readonly (readonly ShownWord[])[]): string {
  const wanted = contentWords(question);
  const kind = answerKind(question);
  let best: Candidate | null = null;
  for (const words of evidence)
    for (const candidate of candidatesOf(words, { wanted, kind })) if (best === null || candidate.score > best.score) best = candidate;
  return best?.text ?? '';
}

type AnswerKind = 'name' | 'year' | 'number';

/** What kind of words answers the question. */
function answerKind(question: string): AnswerKind {
  if (/^who\b/i.test(question)) return 'name';
  if (/^when\b|^in which year\b/i.test(question)) return 'year';
  return 'number';
}

interface Candidate {
  readonly text: string;
  readonly score: number;
}

interface Sought {
  /** Words of the question. */
  readonly wanted: ReadonlySet<string>;
  readonly kind: AnswerKind;
}

function candidatesOf(words: readonly ShownWord[], sought: Sought): Candidate[] {
  const legible = words.filter(({ text }) => text !== null);
  // A word of the question that stands anywhere on the picture speaks for the picture as a whole.
  const shared = new Set(legible.flatMap(({ text }) => plainWords(text!)).filter((word) => sought.wanted.has(word))).size;
  return linesOf(legible).flatMap(({ words: line }) =>
    spansOf(line, sought).map((span) => ({ text: textOf(span), score: supportOf(span, legible, sought) + shared / 10 })),
  );
}

/** Runs of words in a line that can be the answer. */
function spansOf(line: readonly ShownWord[], { wanted, kind }: Sought): (readonly ShownWord[])[] {
  const isNew = ({ text }: ShownWord) => !plainWords(text!).some((word) => wanted.has(word));
  if (kind === 'name') return runsOf(line, (word) => /^\p{Lu}/u.test(word.text!) && isNew(word)).filter((run) => run.length === 2);
  const isFit =
    kind === 'year' ? ({ text }: ShownWord) => /^(?:1[89]|20)\d\d[,.]?$/.test(text!) : ({ text }: ShownWord) => /^-?\d[\d.,]*%?$/.test(text!);
  return line.filter((word) => isFit(word) && isNew(word)).map((word) => [word]);
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

/** How many words of the question stand in the same line, the same row or the same column as the span. */
function supportOf(span: readonly ShownWord[], words: readonly ShownWord[], { wanted }: Sought): number {
  const own = span[0]!;
  const [centreX, centreY] = [middle(own.box[0], own.box[2]), middle(own.box[1], own.box[3])];
  const found = new Set<string>();
  for (const { text, box, line } of words) {
    const isNear = line === own.line || (box[1] <= centreY && centreY <= box[3]) || (box[0] <= centreX && centreX <= box[2]);
    if (isNear) for (const word of plainWords(text!)) if (wanted.has(word)) found.add(word);
  }
  return found.size;
}

function textOf(span: readonly ShownWord[]): string {
  return span
    .map(({ text }) => text)
    .join(' ')
    .replace(/[.,;:]+$/, '');
}

function middle(a: number, b: number): number {
  return (a + b) / 2;
}

function isGeneratorData(data: unknown): data is GeneratorData {
  return typeof data === 'object' && data !== null && 'question' in data && 'evidence' in data;
}
