/** Work that a caller asks for and comes back for: each request answers an id at once, and the result is retrieved by it. */
import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { onAbort } from '../../core/abort.ts';
import type { PassOutput } from '../../tinker/wire/training-pass.ts';
import type { Samples } from '../../tinker/wire/samples.ts';
import type { HeldBytes } from '../held-bytes.ts';
import { type FutureFailure, failureOf, TinkerRefusal } from './tinker-refusal.ts';

/** Passes and samples are kept as numbers: the caller who retrieves them says in which form it reads them. */
export type FutureResult =
  | { readonly kind: 'json'; readonly body: object }
  | { readonly kind: 'pass'; readonly output: PassOutput }
  | { readonly kind: 'samples'; readonly samples: Samples };

export type FutureOutcome = FutureResult | ({ readonly kind: 'failed' } & FutureFailure);

/** Results that nobody retrieves are forgotten, the oldest first. */
const [MOST_UNFINISHED, MOST_FINISHED, MOST_BYTES, KEPT_MS] = [10_000, 20_000, 2 ** 28, 10 * 60_000] as const;
/** Of an object that is small. */
const SMALL_BYTES = 512;

export interface FuturesOptions {
  /** Called with every failure that is the server's own. */
  readonly onFailure: (error: unknown) => void;
  /** The account of what requests hold until their work is done. */
  readonly held: HeldBytes;
  /** Requests whose work may wait or run at a time. @default 10,000 */
  readonly mostUnfinished?: number;
}

export class Futures {
  readonly #options: FuturesOptions;
  /** Another one in every process: a caller who comes back after a restart must not get somebody else's result. */
  readonly #prefix = `future-${randomBytes(6).toString('hex')}-`;
  readonly #unfinished = new Map<string, Promise<void>>();
  readonly #finished = new LRUCache<string, FutureOutcome>({ max: MOST_FINISHED, maxSize: MOST_BYTES, sizeCalculation: bytesOf, ttl: KEPT_MS });
  #made = 0;

  constructor(options: FuturesOptions) {
    this.#options = options;
  }

  /** Throws TinkerRefusal (429) if too much waits already. @param bytes what the request would hold */
  assertRoom(bytes = 0): void {
    const { mostUnfinished = MOST_UNFINISHED, held } = this.#options;
    if (!held.makeRoom(bytes)) throw new TinkerRefusal(429, `${held.fullText}; send this request again later`, { retryable: true });
    if (this.#unfinished.size >= mostUnfinished)
      throw new TinkerRefusal(429, `${mostUnfinished} requests wait for their results already; send this one again later`, { retryable: true });
  }

  /** Returns its id. A failure is a result too. @param bytes what the work holds until it is done */
  begin(work: () => Promise<FutureResult>, bytes = 0): string {
    const id = `${this.#prefix}${++this.#made}`;
    this.#options.held.hold(bytes);
    const done = this.#finish(id, work).finally(() => this.#options.held.hold(-bytes));
    this.#unfinished.set(id, done);
    return id;
  }

  /** Null if it is not there within `waitMs`, or before the signal aborts. Throws TinkerRefusal: 410 for one that was forgotten, 404 for one that never was. */
  async retrieve(id: string, waitMs: number, signal: AbortSignal): Promise<FutureOutcome | null> {
    const running = this.#unfinished.get(id);
    if (running !== undefined) await waitFor(running, waitMs, signal);
    const outcome = this.#finished.get(id);
    if (outcome !== undefined) return outcome;
    if (this.#unfinished.has(id)) return null;
    if (this.isForgotten(id))
      throw new TinkerRefusal(410, `The result of ${id} was kept for ${KEPT_MS / 60_000} minutes and is gone; send the request again`);
    throw new TinkerRefusal(404, `There is no request ${JSON.stringify(id.slice(0, 64))} at this server; it may have been started again since`);
  }

  /** True for a request of this server whose result is kept no longer. */
  isForgotten(id: string): boolean {
    const number = id.startsWith(this.#prefix) ? Number(id.slice(this.#prefix.length)) : NaN;
    return number >= 1 && number <= this.#made && !this.#unfinished.has(id) && !this.#finished.has(id);
  }

  async #finish(id: string, work: () => Promise<FutureResult>): Promise<void> {
    const outcome = await work().catch((error: unknown) => this.#failed(error));
    this.#finished.set(id, outcome);
    this.#unfinished.delete(id);
  }

  #failed(error: unknown): FutureOutcome {
    const failure = failureOf(error);
    if (failure !== null) return { kind: 'failed', ...failure };
    this.#options.onFailure(error);
    return { kind: 'failed', error: 'The server failed; its operator finds the reason in its log', category: 'server' };
  }
}

/** Resolves with the work, after a time or with the signal, whichever comes first. */
async function waitFor(work: Promise<void>, waitMs: number, signal: AbortSignal): Promise<void> {
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(over.resolve, waitMs);
  using _ = onAbort(signal, over.resolve);
  await Promise.race([work, over.promise]);
  clearTimeout(timer);
}

function bytesOf(outcome: FutureOutcome): number {
  if (outcome.kind === 'pass')
    return outcome.output.data.reduce(
      (sum, tensors) => sum + SMALL_BYTES + Object.values(tensors).reduce((all, { values }) => all + values.byteLength, 0),
      SMALL_BYTES,
    );
  if (outcome.kind === 'samples') {
    const { sequences, promptLogProbs, promptLikeliest } = outcome.samples;
    const prompt = (promptLogProbs?.byteLength ?? 0) + 2 * (promptLikeliest?.ids.byteLength ?? 0);
    return sequences.reduce(
      (sum, { tokens, likeliest }) => sum + SMALL_BYTES + 2 * tokens.byteLength + 2 * (likeliest?.ids.byteLength ?? 0),
      SMALL_BYTES + prompt,
    );
  }
  return SMALL_BYTES;
}
