/** ROUGE-1, ROUGE-2 and ROUGE-L as F-measures, equal to rouge_score 0.1.2 with its default tokenizer. Words consist only of [a-z0-9], so Chinese text has none and scores 0. */
import { porterStem } from './porter.ts';

const NO_WORD = /[^a-z0-9]+/;
/** rouge_score leaves words of up to this many letters as they are. */
const UNSTEMMED_LENGTH = 3;

export interface RougeScores {
  readonly rouge1: number;
  readonly rouge2: number;
  readonly rougeL: number;
}

/**
 * The words of rouge_score's tokenizer: lower-cased, of a to z and digits alone.
 * @param options `stem`: words of four letters and more become their stem by NLTK's Porter. @default true
 */
export function rougeTokens(text: string, { stem = true }: { readonly stem?: boolean } = {}): string[] {
  const words = text
    .toLowerCase()
    .split(NO_WORD)
    .filter((word) => word !== '');
  return stem ? words.map((word) => (word.length > UNSTEMMED_LENGTH ? porterStem(word, 'nltk') : word)) : words;
}

/**
 * F-measures of the tokens of a prediction against those of a reference, each in [0, 1]. Time: the sum of both lengths, and for ROUGE-L their product
 * divided by 32; memory is linear.
 * @example rougeScores(rougeTokens('the cat sat'), rougeTokens('the cat')).rouge1 // 0.8
 */
export function rougeScores(prediction: readonly string[], reference: readonly string[]): RougeScores {
  const ids = new Map<string, number>();
  const numbered = (tokens: readonly string[]) =>
    Int32Array.from(tokens, (token) => {
      let id = ids.get(token);
      if (id === undefined) ids.set(token, (id = ids.size));
      return id;
    });
  const [target, predicted] = [numbered(reference), numbered(prediction)];
  const [p, r] = [predicted.length, target.length];
  return {
    rouge1: fMeasure(common(predicted, target, 1, ids.size), p, r),
    rouge2: fMeasure(common(predicted, target, 2, ids.size), p - 1, r - 1),
    rougeL: fMeasure(longestCommonSubsequence(predicted, target, ids.size), p, r),
  };
}

/** Lengths below 1 count as 1, as in rouge_score. */
function fMeasure(matches: number, predicted: number, reference: number): number {
  const precision = matches / Math.max(predicted, 1);
  const recall = matches / Math.max(reference, 1);
  return precision + recall > 0 ? (2 * precision * recall) / (precision + recall) : 0;
}

/** The number of n-grams that the two have in common, counted with multiplicity. */
function common(predicted: Int32Array, reference: Int32Array, n: 1 | 2, size: number): number {
  const gram = (ids: Int32Array, i: number) => (n === 1 ? ids[i]! : ids[i]! * size + ids[i + 1]!);
  const left = new Map<number, number>();
  for (let i = 0; i + n <= reference.length; i++) left.set(gram(reference, i), (left.get(gram(reference, i)) ?? 0) + 1);
  let matches = 0;
  for (let i = 0; i + n <= predicted.length; i++) {
    const key = gram(predicted, i);
    const count = left.get(key) ?? 0;
    if (count === 0) continue;
    matches++;
    left.set(key, count - 1);
  }
  return matches;
}

/** Length of the longest common subsequence, 32 columns at a time (Hyyrö 2004): a bit is 0 where the length of the row rises. */
function longestCommonSubsequence(a: Int32Array, b: Int32Array, size: number): number {
  let start = 0;
  let [aEnd, bEnd] = [a.length, b.length];
  while (start < aEnd && start < bEnd && a[start] === b[start]) start++;
  while (aEnd > start && bEnd > start && a[aEnd - 1] === b[bEnd - 1]) {
    aEnd--;
    bEnd--;
  }
  const around = start + a.length - aEnd;
  const [rows, columns] =
    aEnd - start > bEnd - start ? [a.subarray(start, aEnd), b.subarray(start, bEnd)] : [b.subarray(start, bEnd), a.subarray(start, aEnd)];
  if (columns.length === 0) return around;
  const places = placesOf(columns, size);
  const words = Math.ceil(columns.length / 32);
  const row = new Int32Array(words).fill(-1);
  const matches = new Int32Array(words);
  for (const id of rows) {
    const [from, to] = [places.starts[id]!, places.starts[id + 1]!];
    // A row without a match changes nothing.
    if (from === to) continue;
    for (let p = from; p < to; p++) matches[places.positions[p]! >>> 5]! |= 1 << (places.positions[p]! & 31);
    let carry = 0;
    for (let w = 0; w < words; w++) {
      const value = row[w]!;
      const match = value & matches[w]!;
      const sum = (value >>> 0) + (match >>> 0) + carry;
      carry = sum > 0xffffffff ? 1 : 0;
      row[w] = sum | (value & ~matches[w]!);
    }
    for (let p = from; p < to; p++) matches[places.positions[p]! >>> 5] = 0;
  }
  let length = 0;
  for (let j = 0; j < columns.length; j++) if ((row[j >>> 5]! & (1 << (j & 31))) === 0) length++;
  return around + length;
}

/** The positions of each id, ascending: `positions[starts[id] .. starts[id + 1]]`. */
function placesOf(ids: Int32Array, size: number): { readonly starts: Int32Array; readonly positions: Int32Array } {
  const starts = new Int32Array(size + 1);
  for (const id of ids) starts[id + 1]!++;
  for (let id = 0; id < size; id++) starts[id + 1]! += starts[id]!;
  const next = starts.slice(0, size);
  const positions = new Int32Array(ids.length);
  for (const [place, id] of ids.entries()) positions[next[id]!++] = place;
  return { starts, positions };
}
