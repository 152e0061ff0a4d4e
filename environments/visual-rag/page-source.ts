/** Pages by name: their words from a sidecar, their pictures from a folder, or both. */
import { ConfigError, RetrievalError } from 'vf-search';
import type { DocumentPage } from './documents.ts';
import type { Pictures } from './pictures.ts';

export interface PageSourceOptions {
  /** Pages of a word sidecar. @default none: every page is a picture without known words */
  readonly sidecar?: ReadonlyMap<string, DocumentPage> | null;
  /** @default none */
  readonly pictures?: Pictures | null;
}

export class PageSource {
  readonly pictures: Pictures | null;
  readonly #sidecar: ReadonlyMap<string, DocumentPage> | null;

  /** Throws ConfigError if both are missing. */
  constructor({ sidecar = null, pictures = null }: PageSourceOptions) {
    if (sidecar === null && pictures === null) throw new ConfigError('Pages need a word sidecar, pictures, or both. Pass at least one of them.');
    this.pictures = pictures;
    this.#sidecar = sidecar;
  }

  /** Tells whether the words of the pages are known. */
  get hasWords(): boolean {
    return this.#sidecar !== null;
  }

  /** Rejects with RetrievalError for an unknown page, with EnvironmentError if its picture cannot be used. */
  async page(id: string, signal: AbortSignal): Promise<DocumentPage> {
    const known = this.#sidecar?.get(id);
    if (this.#sidecar !== null && known === undefined)
      throw new RetrievalError(
        `A search found the page ${JSON.stringify(id.slice(0, 200))}, which the data set does not have. Use a retriever over the same pages.`,
      );
    if (this.pictures === null) return known!;
    const size = await this.pictures.size(id, signal);
    if (known === undefined) return { id, ...size, words: [] };
    if (known.width === size.width && known.height === size.height) return known;
    throw new ConfigError(
      `The picture of page ${JSON.stringify(id)} has ${size.width} × ${size.height} pixels, but its words are placed on ${known.width} × ${known.height}. Give words and pictures of one size.`,
    );
  }
}
