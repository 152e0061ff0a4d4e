/** A small real retriever: passages ranked by how many words they share with the query. It counts its searches, and can wait or fail. */
import type { Passage, Retriever } from '../../src/retrieval/retriever.ts';

export interface Asked {
  readonly queries: readonly string[];
  readonly topk: number;
  readonly signal: AbortSignal;
}

export class WordRetriever implements Retriever {
  readonly name = 'words';
  readonly asked: Asked[] = [];
  closed = 0;
  readonly #passages: readonly Passage[];
  readonly #before: (asked: Asked) => unknown;

  /** `before` runs ahead of every search; what it throws is thrown, what it promises is waited for. */
  constructor(passages: readonly Passage[], before: (asked: Asked) => unknown = () => {}) {
    this.#passages = passages;
    this.#before = before;
  }

  async search(queries: readonly string[], { topk, signal }: { readonly topk: number; readonly signal: AbortSignal }): Promise<Passage[][]> {
    signal.throwIfAborted();
    const asked = { queries, topk, signal };
    this.asked.push(asked);
    await this.#before(asked);
    return queries.map((query) => {
      const words = new Set(wordsOf(query));
      return this.#passages
        .map((passage) => ({ ...passage, score: wordsOf(passage.contents).filter((word) => words.has(word)).length }))
        .filter(({ score }) => score > 0)
        .toSorted((a, b) => b.score - a.score)
        .slice(0, topk);
    });
  }

  async close(): Promise<void> {
    this.closed += 1;
  }
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
}
