/** A search takes a query and returns one text. The engines here are a keyword base and any retriever of the package; `web-search-engine.ts` has those of the web. */
import { ConfigError, type Retriever } from 'vf-search';
import { formatPassages } from 'vf-search/environments/search-r1';
import { strip } from 'vf-search/metrics/python-text';

export interface SearchEngine {
  /** Name in results, without credentials. */
  readonly name: string;
  /** The text that is injected. Throws RetrievalError if the engine fails. */
  search(query: string, options: { readonly signal: AbortSignal }): Promise<string>;
  close(): Promise<void>;
}

/** The text for a query without results. */
export function nothingFound(query: string): string {
  return `No information found for: ${query}`;
}

/**
 * A keyword base in memory: the first keyword that occurs in the query, upper and lower case alike, gives its text.
 * @example await new MockSearchEngine({ sick: 'Call before 9:30.' }).search('Whom do I call when I am SICK?', { signal }) // 'Call before 9:30.'
 */
export class MockSearchEngine implements SearchEngine {
  readonly name: string;
  readonly #entries: readonly (readonly [string, string])[];

  /**
   * @param knowledge keyword and text, in the order in which they are tried. An object puts whole numbers first; pass a Map to keep them in place.
   * @param options `name`: 'mock' by default
   */
  constructor(knowledge: Readonly<Record<string, string>> | ReadonlyMap<string, string>, { name = 'mock' }: { readonly name?: string } = {}) {
    this.name = name;
    const entries = knowledge instanceof Map ? [...knowledge] : Object.entries(knowledge as Readonly<Record<string, string>>);
    for (const [keyword, text] of entries)
      if (typeof text !== 'string')
        throw new ConfigError(`The keyword base must hold text, but ${JSON.stringify(keyword)} has ${JSON.stringify(text)}`);
    this.#entries = entries.map(([keyword, text]) => [keyword.toLowerCase(), text]);
  }

  async search(query: string): Promise<string> {
    const lower = query.toLowerCase();
    return this.#entries.find(([keyword]) => lower.includes(keyword))?.[1] ?? nothingFound(query);
  }

  async close(): Promise<void> {}
}

/** A retriever as an engine: its passages as search-r1 prints them, `Doc 1(Title: ...) ...`, a line each. Closes the retriever. */
export function retrieverEngine(retriever: Retriever, { topk = 3 }: { readonly topk?: number } = {}): SearchEngine {
  return {
    name: retriever.name,
    search: async (query, { signal }) => {
      const [passages = []] = await retriever.search([query], { topk, signal });
      return passages.length === 0 ? nothingFound(query) : strip(formatPassages(passages));
    },
    close: () => retriever.close(),
  };
}
