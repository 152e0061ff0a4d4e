/**
 * A synthetic corpus of any size from nq-mini's sentences. A passage has one of nq-mini's titles and that text's first sentence, then random sentences
 * until it has 90 words, cut at 130. The same number of rows gives the same bytes everywhere. The vocabulary stops growing, so a million passages have
 * longer posting lists, and slower queries, than a million of Wikipedia's.
 */
import { closeSync, existsSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';

const corpus = new URL('../../datasets/nq-mini/corpus.jsonl.br', import.meta.url);
const MIN_WORDS = 90;
const MAX_WORDS = 130;

interface Sentence {
  readonly text: string;
  readonly words: number;
}

/** Path of the corpus in `directory`; writes it if it is missing. */
export function syntheticCorpus(rows: number, directory: string): string {
  const path = join(directory, `passages-${rows}.jsonl`);
  if (existsSync(path)) return path;
  const { titles, openings, sentences } = readSentences();
  const draw = drawing(0x5eed);
  const file = openSync(`${path}.part`, 'w');
  let lines: string[] = [];
  for (let row = 0; row < rows; row++) {
    const subject = draw(titles.length);
    const parts = [openings[subject]!];
    for (let words = parts[0]!.words; words < MIN_WORDS; words += parts.at(-1)!.words) parts.push(sentences[draw(sentences.length)]!);
    const words = parts
      .map((part) => part.text)
      .join(' ')
      .split(' ');
    lines.push(`${JSON.stringify({ id: String(row), contents: `${titles[subject]}\n${words.slice(0, MAX_WORDS).join(' ')}` })}\n`);
    if (lines.length < 10_000 && row < rows - 1) continue;
    writeSync(file, lines.join(''));
    lines = [];
  }
  closeSync(file);
  renameSync(`${path}.part`, path);
  return path;
}

function readSentences(): { titles: string[]; openings: Sentence[]; sentences: Sentence[] } {
  const titles: string[] = [];
  const openings: Sentence[] = [];
  const sentences: Sentence[] = [];
  for (const line of brotliDecompressSync(readFileSync(corpus)).toString('utf8').trim().split('\n')) {
    const [title, ...text] = (JSON.parse(line) as { contents: string }).contents.split('\n');
    const found = text
      .join(' ')
      .split(/(?<=[.!?]) +(?=[A-Z0-9"'(])/)
      .map((sentence) => ({ text: sentence, words: sentence.split(' ').length }))
      .filter(({ words }) => words >= 4);
    if (found.length === 0) continue;
    titles.push(title!);
    openings.push(found[0]!);
    sentences.push(...found);
  }
  return { titles, openings, sentences };
}

/** Draws integers below a bound with a 48-bit linear congruential generator (drand48's constants). */
function drawing(seed: number): (bound: number) => number {
  const modulus = 2n ** 48n;
  let state = (BigInt(seed) << 16n) + 0x330en;
  return (bound) => {
    state = (state * 0x5deece66dn + 11n) % modulus;
    return Math.floor((Number(state >> 16n) / 2 ** 32) * bound);
  };
}
