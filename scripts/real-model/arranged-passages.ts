/**
 * Passages for demonstrations that ask one question several times: of the retriever's first passages for it, one that holds a golden answer and others, in a drawn
 * order. A policy that reads them learns where an answer stands rather than that it stands in the first passage. For training only: it knows the answers.
 */
import { Random, type Passage, type Retriever, type SearchOptions } from 'vf-search';
import { holds } from './evidence.ts';

export interface ArrangedPassagesOptions {
  /** Closed with this one. */
  readonly retriever: Retriever;
  /** Golden answers by query. Other queries get what the retriever finds. */
  readonly golden: ReadonlyMap<string, readonly string[]>;
  /** The same seed gives a query the same passages, whatever was searched before. */
  readonly seed: number;
}

/** Passages among which one with the answer is found, and those among which the others are drawn. */
const FOUND = 10;
const OTHERS = 8;

export class ArrangedPassages implements Retriever {
  readonly name: string;
  readonly #options: ArrangedPassagesOptions;

  constructor(options: ArrangedPassagesOptions) {
    this.#options = options;
    this.name = `arranged ${options.retriever.name}`;
  }

  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    const { retriever, golden, seed } = this.#options;
    const found = await retriever.search(queries, { topk: Math.max(FOUND, topk), signal });
    return queries.map((query, i) => {
      const answers = golden.get(query);
      return answers === undefined ? found[i]!.slice(0, topk) : arranged(found[i]!, { answers, topk, random: Random.fromSeed(seed).fork(query) });
    });
  }

  async close(): Promise<void> {
    await this.#options.retriever.close();
  }
}

interface Arrangement {
  readonly answers: readonly string[];
  readonly topk: number;
  readonly random: Random;
}

/** The first `topk` as they are if none of `found` holds an answer. */
function arranged(found: readonly Passage[], { answers, topk, random }: Arrangement): readonly Passage[] {
  const holding = found.filter(({ contents }) => answers.some((answer) => holds(contents, answer)));
  if (holding.length === 0) return found.slice(0, topk);
  // The first of them is the likeliest to answer the question rather than to mention the words by chance.
  const chosen = random.integer(2) === 0 ? holding[0]! : holding[random.integer(holding.length)]!;
  const others = found.slice(0, OTHERS).filter((passage) => passage !== chosen);
  return random.shuffle([chosen, ...random.shuffle(others).slice(0, topk - 1)]);
}
