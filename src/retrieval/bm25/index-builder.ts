/** Collects passages in forward lists and converts these to the inverted lists of a shard, freeing memory as it goes. */
import { encodeLength } from './field-length.ts';
import { MAX_FREQUENCY, MAX_SHARD_ROWS, Shard, type ShardArrays } from './shard.ts';
import { Vocabulary } from './vocabulary.ts';
import { scanWords } from './word-breaks.ts';

/** Postings per chunk of the forward lists. */
const CHUNK_POSTINGS = 1 << 20;
/** A shard is closed before its postings exceed 32-bit offsets. */
const MAX_SHARD_POSTINGS = 2 ** 31;

interface Chunk {
  readonly terms: Uint32Array;
  readonly frequencies: Uint8Array;
  /** End of each passage's postings in this chunk. */
  readonly ends: number[];
}

/** An indexed corpus, with the counts that scores depend on. */
export interface IndexedCorpus {
  readonly vocabulary: Vocabulary;
  readonly shards: readonly Shard[];
  readonly rows: number;
  /** Passages with at least one term: Lucene's docCount. */
  readonly rowsWithTerms: number;
  /** Number of terms in all passages, including repetitions. */
  readonly tokens: number;
}

export class IndexBuilder {
  readonly #shardRows: number;
  readonly #vocabulary = new Vocabulary();
  readonly #shards: Shard[] = [];
  /** Term ids of the passage being read. */
  #passage = new Uint32Array(1 << 12);
  #passageLength = 0;
  readonly #sink = { word: (word: string): void => this.#addWord(word) };
  #chunks: Chunk[] = [];
  #chunkLength = 0;
  #shardLengths = new Uint8Array(1 << 12);
  #shardRow = 0;
  #shardPostings = 0;
  #rows = 0;
  #rowsWithTerms = 0;
  #tokens = 0;
  // By term: the last row with it, its index in that row's chunk, and the number of passages of the shard in which it occurs once and more often.
  #lastRow = new Int32Array(1 << 14).fill(-1);
  #place = new Uint32Array(1 << 14);
  #singles = new Uint32Array(1 << 14);
  #repeats = new Uint32Array(1 << 14);

  /** `shardRows`: passages per shard, 1 to 2^24. @default 2^24 */
  constructor(options: { readonly shardRows?: number } = {}) {
    this.#shardRows = options.shardRows ?? MAX_SHARD_ROWS;
  }

  get rows(): number {
    return this.#rows;
  }

  /** Adds a passage; its row is the number of passages before it. */
  add(contents: string): void {
    if (this.#shardRow >= this.#shardRows || this.#shardPostings >= MAX_SHARD_POSTINGS) this.#closeShard();
    this.#passageLength = 0;
    scanWords(contents, this.#sink);
    this.#growByTerm();
    const postings = this.#appendPostings();
    if (this.#shardRow === this.#shardLengths.length) {
      const grown = new Uint8Array(2 * this.#shardRow);
      grown.set(this.#shardLengths);
      this.#shardLengths = grown;
    }
    this.#shardLengths[this.#shardRow++] = encodeLength(this.#passageLength);
    this.#shardPostings += postings;
    this.#rows++;
    this.#tokens += this.#passageLength;
    if (postings > 0) this.#rowsWithTerms++;
  }

  /** Returns the index of all added passages. The builder must not be used afterwards. */
  finish(): IndexedCorpus {
    if (this.#shardRow > 0) this.#closeShard();
    this.#vocabulary.freeze();
    return { vocabulary: this.#vocabulary, shards: this.#shards, rows: this.#rows, rowsWithTerms: this.#rowsWithTerms, tokens: this.#tokens };
  }

  #addWord(word: string): void {
    const id = this.#vocabulary.idOf(word);
    if (id < 0) return;
    if (this.#passageLength === this.#passage.length) {
      const grown = new Uint32Array(2 * this.#passageLength);
      grown.set(this.#passage);
      this.#passage = grown;
    }
    this.#passage[this.#passageLength++] = id;
  }

  #growByTerm(): void {
    const terms = this.#vocabulary.terms.length;
    const old = this.#lastRow;
    if (terms <= old.length) return;
    this.#lastRow = new Int32Array(2 * terms).fill(-1, old.length);
    this.#lastRow.set(old);
    const grow = (array: Uint32Array): Uint32Array<ArrayBuffer> => {
      const grown = new Uint32Array(2 * terms);
      grown.set(array);
      return grown;
    };
    this.#place = grow(this.#place);
    this.#singles = grow(this.#singles);
    this.#repeats = grow(this.#repeats);
  }

  /** Appends the distinct terms of the passage being read; returns how many. */
  #appendPostings(): number {
    const chunk = this.#chunkWithRoom(this.#passageLength);
    const { terms, frequencies } = chunk;
    const passage = this.#passage;
    const lastRow = this.#lastRow;
    const place = this.#place;
    const singles = this.#singles;
    const repeats = this.#repeats;
    const row = this.#shardRow;
    const start = this.#chunkLength;
    let end = start;
    for (let i = 0; i < this.#passageLength; i++) {
      const term = passage[i]!;
      if (lastRow[term] !== row) {
        lastRow[term] = row;
        place[term] = end;
        terms[end] = term;
        frequencies[end++] = 1;
        singles[term]!++;
        continue;
      }
      const at = place[term]!;
      if (frequencies[at] === 1) {
        singles[term]!--;
        repeats[term]!++;
      }
      if (frequencies[at]! < MAX_FREQUENCY) frequencies[at]!++;
    }
    chunk.ends.push(end);
    this.#chunkLength = end;
    return end - start;
  }

  #chunkWithRoom(postings: number): Chunk {
    const last = this.#chunks.at(-1);
    if (last !== undefined && this.#chunkLength + postings <= last.terms.length) return last;
    const size = Math.max(CHUNK_POSTINGS, postings);
    const chunk: Chunk = { terms: new Uint32Array(size), frequencies: new Uint8Array(size), ends: [] };
    this.#chunks.push(chunk);
    this.#chunkLength = 0;
    return chunk;
  }

  #closeShard(): void {
    const terms = this.#vocabulary.terms.length;
    const lengths = this.#shardLengths.slice(0, this.#shardRow);
    this.#shards.push(new Shard(invert(this.#chunks, lengths, this.#singles.subarray(0, terms), this.#repeats.subarray(0, terms))));
    this.#chunks = [];
    this.#chunkLength = 0;
    this.#shardRow = 0;
    this.#shardPostings = 0;
    this.#lastRow.fill(-1);
    this.#singles.fill(0);
    this.#repeats.fill(0);
  }
}

/** A counting sort by term and tier. Frees each chunk as soon as it is read, to limit the memory while both forms exist. */
function invert(chunks: Chunk[], lengths: Uint8Array, singles: Uint32Array, repeats: Uint32Array): ShardArrays {
  const terms = singles.length;
  const offsets = new Uint32Array(terms + 1);
  const middles = new Uint32Array(terms);
  const frequencyOffsets = new Uint32Array(terms + 1);
  for (let t = 0; t < terms; t++) {
    middles[t] = offsets[t]! + repeats[t]!;
    offsets[t + 1] = middles[t]! + singles[t]!;
    frequencyOffsets[t + 1] = frequencyOffsets[t]! + repeats[t]!;
  }
  const postings = new Int32Array(offsets[terms]!);
  const frequencies = new Uint8Array(frequencyOffsets[terms]!);
  const nextRepeat = offsets.slice(0, terms);
  const nextSingle = middles.slice();
  let row = 0;
  for (const chunk of chunks) {
    let p = 0;
    for (const end of chunk.ends) {
      const posting = row | (lengths[row]! << 24);
      row++;
      for (; p < end; p++) {
        const term = chunk.terms[p]!;
        const frequency = chunk.frequencies[p]!;
        if (frequency === 1) postings[nextSingle[term]!++] = posting;
        else {
          const at = nextRepeat[term]!++;
          postings[at] = posting;
          frequencies[frequencyOffsets[term]! + at - offsets[term]!] = frequency;
        }
      }
    }
    // The garbage collector might wait until both forms of the whole shard are in memory.
    (chunk.terms.buffer as ArrayBuffer).transfer(0);
    (chunk.frequencies.buffer as ArrayBuffer).transfer(0);
  }
  chunks.length = 0;
  return { lengths, offsets, middles, frequencyOffsets, postings, frequencies };
}
