/** Search results in the form that upstream prints for its refiner, and passages of a retriever as such results. */
import type { Passage, Retriever } from 'vf-search';
import { snippetContext } from './snippet-context.ts';

/** A result of a search engine with the text of its page. */
export interface WebPage {
  readonly title: string;
  /** Empty if the result has no address. */
  readonly url: string;
  readonly siteName: string;
  /** As in `2024-05-01`; empty if unknown. */
  readonly date: string;
  /** The engine's quotation from the page; it determines the context that the refiner sees. */
  readonly snippet: string;
  /** The text of the page; empty if it could not be fetched. */
  readonly text: string;
}

/** Finds pages for a query. */
export interface PageSearch {
  /** Name in results, without credentials. */
  readonly name: string;
  /** The pages, best first; none if nothing matches. Throws RetrievalError if the engine fails. */
  search(query: string, options: { readonly signal: AbortSignal }): Promise<readonly WebPage[]>;
  close(): Promise<void>;
}

/** Upstream's `max_doc_len`: characters shown on either side of the sentence that fits the snippet. */
export const MAX_DOC_LEN = 3000;

/**
 * The pages in the form that a refiner sees: a heading and a JSON object each, whose `context` is the part of the page around its snippet, else the page's beginning.
 * @param options `maxDocLen`: code points on either side of the snippet; the beginning has twice as many. @default 3000
 */
export function formatWebPages(pages: readonly WebPage[], { maxDocLen = MAX_DOC_LEN }: { readonly maxDocLen?: number } = {}): string {
  return pages.map((page, i) => `**Web Page ${i + 1}:**\n${JSON.stringify(record(page, i, maxDocLen), null, 2)}\n`).join('');
}

function record({ title, url, siteName, date, snippet: marked, text }: WebPage, index: number, maxDocLen: number): Readonly<Record<string, unknown>> {
  const snippet = marked.replaceAll('<b>', '').replaceAll('</b>', '');
  return { id: index + 1, title, url, site_name: siteName, date, snippet, context: snippetContext(text, snippet, maxDocLen) };
}

/** A passage as a page: the first line of its contents, without quotes around it, is the title, the rest the page's text. It has no address, site, date or snippet. */
export function pageOf({ contents }: Pick<Passage, 'contents'>): WebPage {
  const lineEnd = contents.indexOf('\n');
  const line = lineEnd === -1 ? contents : contents.slice(0, lineEnd);
  const isQuoted = line.length > 1 && line.startsWith('"') && line.endsWith('"');
  return {
    title: isQuoted ? line.slice(1, -1) : line,
    url: '',
    siteName: '',
    date: '',
    snippet: '',
    text: lineEnd === -1 ? '' : contents.slice(lineEnd + 1),
  };
}

/** A retriever as a search of pages. Closing the search closes the retriever. */
export function pageSearch(retriever: Retriever, { topk = 10 }: { readonly topk?: number } = {}): PageSearch {
  return {
    name: retriever.name,
    search: async (query, { signal }) => {
      const [passages = []] = await retriever.search([query], { topk, signal });
      return passages.map(pageOf);
    },
    close: () => retriever.close(),
  };
}
