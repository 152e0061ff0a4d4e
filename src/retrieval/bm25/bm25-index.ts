/**
 * A corpus indexed for BM25 search with Lucene's analysis, scores and order. The search is exact: it finds the same hits as scoring every passage,
 * with ties by lower row. Knows nothing of passage text, files or the Retriever interface.
 */
import { ConfigError } from '../../core/errors.ts';
import { searchExhaustively } from './exhaustive-search.ts';
import { IndexBuilder, type IndexedCorpus } from './index-builder.ts';
import { parseQuery } from './query-terms.ts';
import { ShardSearch } from './shard-search.ts';
import { MAX_SHARD_ROWS } from './shard.ts';
import { inverseDocumentFrequency, Similarity } from './similarity.ts';
import { type Bm25Hit, TopHits } from './top-hits.ts';

export interface Bm25Parameters {
  /** Saturation of repeated terms, from 0; higher values saturate more slowly. @default 0.9 (pyserini, Search-R1) */
  readonly k1: number;
  /** Weight of a passage's length, 0 to 1. @default 0.4 (pyserini, Search-R1) */
  readonly b: number;
}

export const defaultParameters: Bm25Parameters = { k1: 0.9, b: 0.4 };

/** Up to these limits pruning is faster; beyond them every passage is scored. */
const MAX_PRUNED_TERMS = 512;
const MAX_PRUNED_HITS = 128;
/** Number of (k1, b) pairs whose tables are cached. */
const KEPT_PARAMETERS = 4;

interface Searcher {
  readonly similarity: Similarity;
  readonly shards: readonly ShardSearch[];
}

export class Bm25Index {
  readonly corpus: IndexedCorpus;
  readonly #firstRows: readonly number[];
  /** By k1 and b, least recently used first. */
  readonly #searchers = new Map<string, Searcher>();

  constructor(corpus: IndexedCorpus) {
    this.corpus = corpus;
    let rows = 0;
    this.#firstRows = corpus.shards.map((shard) => {
      rows += shard.rows;
      return rows - shard.rows;
    });
  }

  /** Indexes passages; a passage's row is its index. `shardRows`: passages per shard. @default 2^24, the maximum */
  static build(contents: Iterable<string>, options: { readonly shardRows?: number } = {}): Bm25Index {
    const { shardRows = MAX_SHARD_ROWS } = options;
    if (!Number.isInteger(shardRows) || shardRows < 1 || shardRows > MAX_SHARD_ROWS) {
      throw new ConfigError(`shardRows must be an integer from 1 to ${MAX_SHARD_ROWS}, got ${shardRows}.`);
    }
    const builder = new IndexBuilder({ shardRows });
    for (const text of contents) builder.add(text);
    return new Bm25Index(builder.finish());
  }

  /** Number of passages. */
  get rows(): number {
    return this.corpus.rows;
  }

  /** Up to `topk` passages that share a term with the query, best first. */
  search(query: string, topk: number, parameters: Partial<Bm25Parameters> = {}): Bm25Hit[] {
    if (!Number.isInteger(topk) || topk < 1) throw new ConfigError(`topk must be an integer of at least 1, got ${topk}.`);
    const { similarity, shards } = this.#searcher({ ...defaultParameters, ...parameters });
    const { ids, counts } = parseQuery(query, this.corpus.vocabulary);
    if (ids.length === 0) return [];
    const weights = ids.map((id, i) => Math.fround(counts[i]! * this.#idf(id)));
    const hits = new TopHits(Math.min(topk, this.rows));
    const isPruned = ids.length <= MAX_PRUNED_TERMS && topk <= MAX_PRUNED_HITS;
    for (const [i, shard] of this.corpus.shards.entries()) {
      const firstRow = this.#firstRows[i]!;
      if (isPruned) shards[i]!.search(ids, weights, firstRow, hits);
      else searchExhaustively({ shard, similarity }, ids, weights, firstRow, hits);
    }
    return hits.toSorted();
  }

  #idf(term: number): number {
    let passages = 0;
    for (const shard of this.corpus.shards) passages += shard.passagesWith(term);
    return inverseDocumentFrequency(this.corpus.rowsWithTerms, passages);
  }

  #searcher({ k1, b }: Bm25Parameters): Searcher {
    const key = `${k1} ${b}`;
    let searcher = this.#searchers.get(key);
    if (searcher === undefined) {
      checkParameters({ k1, b });
      const { tokens, rowsWithTerms, shards } = this.corpus;
      const similarity = new Similarity(k1, b, tokens / Math.max(1, rowsWithTerms));
      searcher = { similarity, shards: shards.map((shard) => new ShardSearch(shard, similarity)) };
      if (this.#searchers.size === KEPT_PARAMETERS) this.#searchers.delete(this.#searchers.keys().next().value!);
    } else this.#searchers.delete(key);
    this.#searchers.set(key, searcher);
    return searcher;
  }
}

/** Throws ConfigError unless k1 is finite and at least 0, and b is from 0 to 1, as Lucene requires. */
export function checkParameters({ k1, b }: Bm25Parameters): void {
  if (!Number.isFinite(k1) || k1 < 0) throw new ConfigError(`k1 must be a finite number of at least 0, got ${k1}.`);
  if (!(b >= 0 && b <= 1)) throw new ConfigError(`b must be a number from 0 to 1, got ${b}.`);
}
