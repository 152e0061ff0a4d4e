/** Searches a dense index: embeds the queries and compares them with the vectors of the passages. */
import { throwIfAborted } from '../../core/abort.ts';
import { RetrievalError } from '../../core/errors.ts';
import type { Passage, Retriever } from '../retriever.ts';
import type { DenseFolder } from './dense-folder.ts';
import { DenseTable } from './dense-table.ts';
import type { Embedder, Prefixes } from './embedder.ts';
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
  async search(
    queries: readonly string[],
    { topk, signal }: { readonly topk: number; readonly signal: AbortSignal },
  ): Promise<readonly (readonly Passage[])[]> {
    throwIfAborted(signal, `Search of ${this.name} was stopped`);
    if (this.#isClosed) throw new RetrievalError(`The retriever ${this.name} was closed.`);
    const asked = [...new Set(queries)].filter((query) => query.trim() !== '');
    if (asked.length === 0) return queries.map(() => []);
    const vectors = await embedQueries(asked, { embedder: this.#embedder, prefixes: { query: this.#manifest.query_prefix, passage: '' }, signal });
    const lists = await this.#table.search(vectors, topk, this.#manifest.search);
    throwIfAborted(signal, `Search of ${this.name} was stopped`);
    const found = new Map(asked.map((query, i) => [query, lists[i]!.map(({ id, contents, score }): Passage => ({ id, contents, score }))]));
    return queries.map((query) => found.get(query) ?? []);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#table.close();
    await this.#embedder.close();
  }
}

/** The vectors of queries, with their prefix. */
function embedQueries(
  queries: readonly string[],
  { embedder, prefixes, signal }: { readonly embedder: Embedder; readonly prefixes: Prefixes; readonly signal: AbortSignal },
): Promise<readonly Float32Array[]> {
  return embedder.embed(
    queries.map((query) => prefixes.query + query),
    signal,
  );
}
