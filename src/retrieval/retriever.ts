/** The joint between environments and whatever finds passages. Caching, batching and limits are decorators around it. */

export interface Passage {
  /** Identifies the passage in its corpus; absent where the engine has no ids (web search). */
  readonly id?: string;
  /** First line the title (quotes, if any, stay), the rest the text. */
  readonly contents: string;
  /** The engine's own score, higher is better; absent where the engine gives none. */
  readonly score?: number;
}

export interface Retriever {
  /** What to call it in results: the corpus and engine, or the URL without credentials. */
  readonly name: string;
  /**
   * One list per query, in order, best first, usually at most `topk` long (web engines may give more). An empty list means no hit.
   * Throws RetrievalError when the engine failed: a failure is never an empty list.
   */
  search(queries: readonly string[], options: { readonly topk: number; readonly signal: AbortSignal }): Promise<readonly (readonly Passage[])[]>;
  close(): Promise<void>;
}
