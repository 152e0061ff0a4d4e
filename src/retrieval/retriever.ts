/** The interface between environments and search engines. Caching, batching and limits are decorators. */

export interface Passage {
  /** Identifies the passage in its corpus; absent if the engine has no ids (web search). */
  readonly id?: string;
  /** The title, with its quotes if any, on the first line, and the text below. */
  readonly contents: string;
  /** The engine's own score, higher is better; absent if the engine has none. */
  readonly score?: number;
}

/** The limits of one search. */
export interface SearchOptions {
  /** At least 1. */
  readonly topk: number;
  readonly signal: AbortSignal;
}

/** Finds passages for queries. Implement it to search with an engine of your own. */
export interface Retriever {
  /** Name in results: the corpus and engine, or the URL without credentials. */
  readonly name: string;
  /**
   * Returns one list per query, in order, best first, usually of at most `topk` passages (web engines may return more). An empty list means no
   * hit. Throws RetrievalError if the engine fails; a failure is never an empty list.
   *
   * @example
   * const [passages] = await retriever.search(['who wrote Dracula'], { topk: 3, signal });
   */
  search(queries: readonly string[], options: SearchOptions): Promise<readonly (readonly Passage[])[]>;
  close(): Promise<void>;
}
