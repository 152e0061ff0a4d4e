/** BM25 over an index and its passages, as a Retriever. Searches run on the calling thread. Imports nothing of Node. */
import { CancelledError, RetrievalError } from '../../core/errors.ts';
import type { Passage, Retriever, SearchOptions } from '../retriever.ts';
import { Bm25Index, type Bm25Parameters, defaultParameters } from './bm25-index.ts';
import { PassageList, type PassageStore } from './passage-list.ts';

/** The interval after which a batch of queries yields to other work. */
const YIELD_AFTER_MS = 10;

export class Bm25Retriever implements Retriever {
  readonly name: string;
  readonly #index: Bm25Index;
  readonly #passages: PassageStore;
  readonly #parameters: Bm25Parameters;
  #isClosed = false;

  constructor(name: string, index: Bm25Index, passages: PassageStore, parameters: Bm25Parameters) {
    this.name = name;
    this.#index = index;
    this.#passages = passages;
    this.#parameters = parameters;
  }

  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<Passage[][]> {
    const results: Passage[][] = [];
    let yieldedAt = performance.now();
    for (const query of queries) {
      if (performance.now() - yieldedAt > YIELD_AFTER_MS) {
        await new Promise((done) => setImmediate(done));
        yieldedAt = performance.now();
      }
      if (signal.aborted) throw new CancelledError(`Search of ${this.name} was stopped`, { cause: signal.reason });
      if (this.#isClosed) throw new RetrievalError(`The retriever ${this.name} was closed.`);
      const hits = this.#index.search(query, topk, this.#parameters);
      results.push(hits.map(({ row, score }) => ({ ...this.#passages.read(row), score })));
    }
    return results;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#passages.close();
  }
}

/** Indexes passages in memory. */
export function openPassages(source: Iterable<Passage>, options: Partial<Bm25Parameters> & { readonly name?: string }): Retriever {
  const passages = Array.from(source, ({ id, contents }, row) => ({ id: id ?? String(row), contents }));
  const index = Bm25Index.build(passages.map(({ contents }) => contents));
  const name = options.name ?? `bm25 ${passages.length} passages`;
  return new Bm25Retriever(name, index, new PassageList(passages), parametersOf(options, defaultParameters));
}

/** The parameters of `given`, else the defaults. */
export function parametersOf({ k1, b }: Partial<Bm25Parameters>, defaults: Bm25Parameters): Bm25Parameters {
  return { k1: k1 ?? defaults.k1, b: b ?? defaults.b };
}
