/**
 * Finds pages by the vectors of their pictures: exact MaxSim of the query with every page. The vectors of a picture and a model are made once and kept on disk. As
 * many as fit into the memory bound stay in memory; the others are read again for every search.
 */
import { createHash } from 'node:crypto';
import { setImmediate as nextEventLoopTurn } from 'node:timers/promises';
import { throwIfAborted } from '../../core/abort.ts';
import { ConfigError, RetrievalError } from '../../core/errors.ts';
import { Limiter } from '../../core/limiter.ts';
import { forDistinctQueries } from '../distinct-queries.ts';
import type { Passage, Retriever, SearchOptions } from '../retriever.ts';
import { asFloat32, maxSim, type TokenVectors } from './token-vectors.ts';
import type { Picture, VectorEncoder } from './vector-encoder.ts';
import type { VectorFiles } from './vector-files.ts';

/** The pictures of the pages to search. */
export interface PagePictures {
  readonly pages: readonly string[];
  picture(page: string): Promise<Picture>;
}

export interface VectorRetrieverOptions {
  /** Closed together with the retriever. */
  readonly encoder: VectorEncoder;
  readonly files: VectorFiles;
  readonly pictures: PagePictures;
  /** Bytes of vectors in memory. @default 2^30 */
  readonly maxBytes?: number;
  /** Pictures that are sent at once while the vectors are made. @default 8 */
  readonly concurrency?: number;
  readonly signal: AbortSignal;
  /** `pages` have vectors; `made` pictures had none on disk. */
  readonly onProgress?: (progress: { readonly pages: number; readonly of: number; readonly made: number }) => void;
}

/** Queries in one request. */
const BATCH = 32;
/** The time for which a search computes before other work gets a turn, in milliseconds. */
const TURN_MS = 10;

interface IndexedPage {
  readonly id: string;
  readonly sha256: string;
  /** Null if they are only on disk. */
  readonly vectors: TokenVectors | null;
}

export class VectorRetriever implements Retriever {
  readonly name: string;
  readonly #encoder: VectorEncoder;
  readonly #files: VectorFiles;
  readonly #pages: readonly IndexedPage[];
  readonly #dim: number;
  /** Searches compute one after the other; at the same time they would only share the core. */
  readonly #limiter = new Limiter(1);
  #scratch = new Float32Array(0);

  private constructor({ encoder, files }: VectorRetrieverOptions, pages: readonly IndexedPage[], dim: number) {
    this.name = encoder.name;
    this.#encoder = encoder;
    this.#files = files;
    this.#pages = pages;
    this.#dim = dim;
  }

  /** Makes the vectors that are not on disk yet. If it fails, those made so far stay there. Throws RetrievalError, ConfigError without pages, CancelledError. */
  static async open(options: VectorRetrieverOptions): Promise<VectorRetriever> {
    const { encoder, pictures, maxBytes = 2 ** 30, concurrency = 8, signal, onProgress } = options;
    const { pages } = pictures;
    if (pages.length === 0) throw new ConfigError('The search has no pictures of pages. Name the folder that holds them.');
    const made = new Map<string, Promise<TokenVectors>>();
    let bytes = 0;
    let [done, fresh] = [0, 0];
    let dim: number | null = null;
    const index = async (id: string, pageSignal: AbortSignal): Promise<IndexedPage> => {
      const picture = await pictures.picture(id);
      const sha256 = createHash('sha256').update(picture.bytes).digest('hex');
      // Pages with one picture share its vectors.
      let making = made.get(sha256);
      if (making === undefined)
        made.set(sha256, (making = vectorsOf({ id, sha256, picture }, { ...options, signal: pageSignal }, () => (fresh += 1))));
      const vectors = await making;
      dim ??= vectors.dim;
      if (vectors.dim !== dim)
        throw new RetrievalError(`${encoder.name} made vectors of ${vectors.dim} numbers for the page ${quoted(id)}, and of ${dim} for others.`);
      onProgress?.({ pages: ++done, of: pages.length, made: fresh });
      const stays = bytes + vectors.values.byteLength <= maxBytes;
      if (stays) bytes += vectors.values.byteLength;
      // Otherwise all vectors would be in memory until the last one is made.
      else made.delete(sha256);
      return { id, sha256, vectors: stays ? vectors : null };
    };
    const indexed = await allOrStop(pages, index, { limiter: new Limiter(concurrency), signal });
    return new VectorRetriever(options, indexed, dim!);
  }

  /** A blank query has no hits. Equal scores keep the order of the pages. */
  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    throwIfAborted(signal);
    return forDistinctQueries(queries, async (asked) => {
      const vectors = await this.#encode(asked, signal);
      const scores = await this.#limiter.run(() => this.#scores(vectors, signal), signal);
      return scores.map((each) => this.#best(each, topk));
    });
  }

  close(): Promise<void> {
    return this.#encoder.close();
  }

  async #encode(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]> {
    const batches = Array.from({ length: Math.ceil(texts.length / BATCH) }, (_, b) => texts.slice(b * BATCH, (b + 1) * BATCH));
    const lists = (await Promise.all(batches.map((batch) => this.#encoder.encodeTexts(batch, signal)))).flat();
    const stranger = lists.find(({ dim }) => dim !== this.#dim);
    if (stranger !== undefined)
      throw new RetrievalError(`${this.name} made vectors of ${stranger.dim} numbers for a query, and of ${this.#dim} for the pages.`);
    return lists.map((vectors) => asFloat32(vectors, new Float32Array(0)));
  }

  /** [queries, pages] */
  async #scores(queries: readonly Float32Array[], signal: AbortSignal): Promise<Float64Array[]> {
    const scores = queries.map(() => new Float64Array(this.#pages.length));
    let turn = performance.now();
    for (const [p, page] of this.#pages.entries()) {
      const vectors = page.vectors ?? (await this.#read(page));
      const values = asFloat32(vectors, this.#scratchOf(vectors.values.length));
      for (const [q, query] of queries.entries()) scores[q]![p] = maxSim(query, values, this.#dim);
      if (performance.now() - turn < TURN_MS) continue;
      await nextEventLoopTurn();
      throwIfAborted(signal);
      turn = performance.now();
    }
    return scores;
  }

  async #read({ id, sha256 }: IndexedPage): Promise<TokenVectors> {
    const vectors = await this.#files.read(sha256);
    if (vectors?.dim === this.#dim) return vectors;
    throw new RetrievalError(`The vectors of the page ${quoted(id)} can no longer be read. Run the command again: it makes them again.`);
  }

  #scratchOf(length: number): Float32Array {
    if (this.#scratch.length < length) this.#scratch = new Float32Array(length);
    return this.#scratch;
  }

  #best(scores: Float64Array, topk: number): Passage[] {
    const order = [...scores.keys()].toSorted((a, b) => scores[b]! - scores[a]! || a - b);
    return order.slice(0, topk).map((p) => ({ id: this.#pages[p]!.id, contents: this.#pages[p]!.id, score: scores[p]! }));
  }
}

/** Does the work on all items in the limiter's slots. The first failure stops the others, and none of them goes on afterwards. */
async function allOrStop<T, R>(
  items: readonly T[],
  work: (item: T, signal: AbortSignal) => Promise<R>,
  { limiter, signal }: { readonly limiter: Limiter; readonly signal: AbortSignal },
): Promise<R[]> {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  // Before the slot passes on to the next item.
  const orStop = (item: T) =>
    work(item, either).catch((error: unknown) => {
      stop.abort(error);
      throw error;
    });
  const running = items.map((item) => limiter.run(() => orStop(item), either));
  await Promise.allSettled(running);
  // If there are several failures, throws the first one, which caused the others.
  if (stop.signal.aborted) throw stop.signal.reason;
  return Promise.all(running);
}

async function vectorsOf(
  { id, sha256, picture }: { readonly id: string; readonly sha256: string; readonly picture: Picture },
  { encoder, files, signal }: VectorRetrieverOptions,
  onMade: () => void,
): Promise<TokenVectors> {
  const found = await files.read(sha256);
  if (found !== null) return found;
  let vectors: TokenVectors;
  try {
    vectors = await encoder.encodePicture(picture, signal);
  } catch (cause) {
    if (!(cause instanceof RetrievalError)) throw cause;
    throw new RetrievalError(`The picture of the page ${quoted(id)} has no vectors: ${cause.message}`, { cause });
  }
  await files.write(sha256, vectors);
  onMade();
  return vectors;
}

function quoted(id: string): string {
  return JSON.stringify(id.slice(0, 200));
}
