/** Searches a dense index: embeds the queries and compares them with the vectors of the passages. */
import { throwIfAborted } from '../../core/abort.ts';
import { RetrievalError } from '../../core/errors.ts';
import { forDistinctQueries } from '../distinct-queries.ts';
import type { Passage, Retriever, SearchOptions } from '../retriever.ts';
import type { DenseFolder } from './dense-folder.ts';
import { DenseTable } from './dense-table.ts';
import type { Embedder } from './embedder.ts';
import type { DenseManifest } from './dense-manifest.ts';
import { assertSameModel } from './same-model.ts';

export interface DenseRetrieverOptions {
  readonly folder: DenseFolder;
  readonly manifest: DenseManifest;
  /** Closed together with the retriever. */
  readonly embedder: Embedder;
  readonly name: string;
  readonly signal: AbortSignal;
}

export class DenseRetriever implements Retriever {
  readonly name: string;
  readonly #table: DenseTable;
  readonly #embedder: Embedder;
  readonly #manifest: DenseManifest;
  #isClosed = false;

  private constructor({ name, embedder, manifest }: DenseRetrieverOptions, table: DenseTable) {
    this.name = name;
    this.#table = table;
    this.#embedder = embedder;
    this.#manifest = manifest;
  }

  /** Embeds the first passage to make sure that the embedder is that of the index. Throws ConfigError if it is another, RetrievalError if the vectors cannot be read. */
  static async open(options: DenseRetrieverOptions): Promise<DenseRetriever> {
    const { folder, manifest, embedder, signal } = options;
    const table = await DenseTable.open(folder.vectors);
    try {
      const rows = await table.rows();
      if (rows !== manifest.rows)
        throw new RetrievalError(`${folder.path} holds ${rows} vectors, and its manifest.json says ${manifest.rows}. Build it again with --force.`);
      await assertSameModel({ table, embedder, prefix: manifest.passage_prefix, index: folder.path, signal });
      return new DenseRetriever(options, table);
    } catch (error) {
      table.close();
      throw error;
    }
  }

  /** A blank query has no hits. */
  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    throwIfAborted(signal, `Search of ${this.name} was stopped`);
    if (this.#isClosed) throw new RetrievalError(`The retriever ${this.name} was closed.`);
    const { query_prefix: prefix, search } = this.#manifest;
    return forDistinctQueries(queries, async (asked) => {
      const vectors = await this.#embedder.embed(
        asked.map((query) => prefix + query),
        signal,
      );
      const lists = await this.#table.search(vectors, topk, search);
      throwIfAborted(signal, `Search of ${this.name} was stopped`);
      return lists.map((list) => list.map(({ id, contents, score }): Passage => ({ id, contents, score })));
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#table.close();
    await this.#embedder.close();
  }
}
