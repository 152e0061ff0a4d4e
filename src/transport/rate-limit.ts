/**
 * The rate limit of one server for one key, shared by all clients of the process: a refusal holds every request back, and afterwards they begin again
 * one by one. The window of requests in flight grows as TCP's does: by one with each answer up to half of what was in flight at the refusal, then by
 * one with each window of answers.
 */
import { cancelled, onAbort, throwIfAborted } from '../core/abort.ts';
import type { VfError } from '../core/errors.ts';
import type { Random } from '../core/random.ts';
import { timerMs } from '../core/timers.ts';

interface Refusal {
  /** Its `retryAfterMs` is the wait that the server requested. */
  readonly error: VfError;
  /** Delay after the first refusal without a named wait; doubles with each further one until the server answers. */
  readonly baseDelayMs: number;
  readonly random: Random;
}

/** A request that may be sent; it reports its outcome exactly once. */
export interface Passage {
  /** The server answered, with whatever status. */
  answered(): void;
  refused(refusal: Refusal): void;
  /** It ended without an answer. */
  ended(): void;
}

/** The wait for a rate limit would be longer than allowed. */
export class WaitTooLong extends Error {}

/** The longest delay between two requests that ask whether the limit has passed, if the server names none. */
const LONGEST_DELAY_MS = 10_000;
/** From this refusal in a row on, a server's own figure is not believed alone. */
const BELIEVED_REFUSALS = 4;

export interface EnterOptions {
  readonly signal: AbortSignal;
  readonly maxWaitMs: number;
  /** The time at which the request began to wait, on the clock of `performance.now()`. */
  readonly sinceMs: number;
  /** It was refused before, so it goes before those that were not. */
  readonly goesFirst: boolean;
}

interface Waiter {
  /** Lets the request pass. */
  readonly wake: () => void;
  /** Ends the wait if it has become too long. */
  readonly check: () => void;
}

export class RateLimit {
  static readonly #shared = new Map<string, { readonly limit: RateLimit; users: number }>();
  readonly #waiters: Waiter[] = [];
  #inFlight = 0;
  #window = Infinity;
  #threshold = Infinity;
  #heldUntilMs = 0;
  /** The end of the hold as the server named it. */
  #namedUntilMs = 0;
  #answeredAtMs = -Infinity;
  /** Number of holds so far: a request that was sent before the last one began says nothing new about it. */
  #holds = 0;
  /** Holds in a row without an answer in between. */
  #refusals = 0;
  #lastRefusal: VfError | null = null;
  #timer: NodeJS.Timeout | undefined;

  /** The limit of the server and key that `id` names. It is forgotten when every user has released it. */
  static share(id: string): { readonly limit: RateLimit; readonly release: () => void } {
    const shared = RateLimit.#shared.get(id) ?? { limit: new RateLimit(), users: 0 };
    RateLimit.#shared.set(id, shared);
    shared.users += 1;
    let isReleased = false;
    const release = () => {
      if (!isReleased && --shared.users === 0) RateLimit.#shared.delete(id);
      isReleased = true;
    };
    return { limit: shared.limit, release };
  }

  /** The time of the last answer that was not a refusal, on the clock of `performance.now()`. */
  get answeredAtMs(): number {
    return this.#answeredAtMs;
  }

  /** The latest refusal; null if there was none. */
  get lastRefusal(): VfError | null {
    return this.#lastRefusal;
  }

  /**
   * Resolves when the request may be sent. Rejects with WaitTooLong once the server has answered nothing but refusals for `maxWaitMs`, or is sure to,
   * and with CancelledError when the signal aborts.
   */
  async enter(options: EnterOptions): Promise<Passage> {
    throwIfAborted(options.signal);
    const passage = this.enterAtOnce();
    if (passage !== null) return passage;
    await this.#turn(options);
    return this.#passage();
  }

  /** Null if the request has to wait. */
  enterAtOnce(): Passage | null {
    if (this.#waiters.length > 0 || !this.#hasRoom) return null;
    this.#inFlight += 1;
    return this.#passage();
  }

  get #hasRoom(): boolean {
    return performance.now() >= this.#heldUntilMs && this.#inFlight < Math.floor(this.#window);
  }

  async #turn({ signal, maxWaitMs, sinceMs, goesFirst }: EnterOptions): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let timer: NodeJS.Timeout | undefined;
    const check = () => {
      clearTimeout(timer);
      const deadlineMs = Math.max(sinceMs, this.#answeredAtMs) + maxWaitMs;
      const now = performance.now();
      if (Math.max(now, this.#namedUntilMs) > deadlineMs) reject(new WaitTooLong());
      else timer = setTimeout(check, timerMs(deadlineMs - now + 1));
    };
    const waiter = { wake: resolve, check };
    if (goesFirst) this.#waiters.unshift(waiter);
    else this.#waiters.push(waiter);
    using _ = onAbort(signal, () => reject(cancelled(signal)));
    check();
    this.#release();
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      const place = this.#waiters.indexOf(waiter);
      if (place !== -1) this.#waiters.splice(place, 1);
    }
  }

  #passage(): Passage {
    const hold = this.#holds;
    return {
      answered: () => {
        this.#inFlight -= 1;
        this.#answeredAtMs = performance.now();
        if (hold === this.#holds) {
          this.#refusals = 0;
          this.#window += this.#window < this.#threshold ? 1 : 1 / this.#window;
        }
        this.#release();
      },
      refused: (refusal) => {
        this.#inFlight -= 1;
        this.#lastRefusal = refusal.error;
        if (hold === this.#holds) this.#beginHold();
        else if (refusal.error.retryAfterMs === null) return this.#release();
        const now = performance.now();
        this.#namedUntilMs = Math.max(this.#namedUntilMs, now + (refusal.error.retryAfterMs ?? 0));
        this.#heldUntilMs = Math.max(this.#heldUntilMs, now + delayMs(refusal, this.#refusals));
        // The hold may have become longer than a request is allowed to wait.
        for (const { check } of this.#waiters) check();
        this.#arm();
      },
      ended: () => {
        this.#inFlight -= 1;
        this.#release();
      },
    };
  }

  #beginHold(): void {
    this.#holds += 1;
    this.#refusals += 1;
    this.#threshold = Math.max(1, Math.min(this.#window, this.#inFlight + 1) / 2);
    this.#window = 1;
  }

  /** Lets waiting requests pass as far as the window allows. */
  #release(): void {
    while (this.#waiters.length > 0 && this.#hasRoom) {
      this.#inFlight += 1;
      this.#waiters.shift()!.wake();
    }
    this.#arm();
  }

  /** Releases when the hold ends. */
  #arm(): void {
    clearTimeout(this.#timer);
    // Without room in the window, an answer releases.
    if (this.#waiters.length === 0 || this.#inFlight >= Math.floor(this.#window)) return;
    this.#timer = setTimeout(() => this.#release(), timerMs(Math.max(0, this.#heldUntilMs - performance.now()) + 1));
  }
}

/** Half fixed, half random, as for retries; never shorter than the server requested. */
function delayMs({ error: { retryAfterMs: requestedMs }, baseDelayMs, random }: Refusal, refusals: number): number {
  const backOff = (n: number) => (n < 1 ? 0 : Math.min(LONGEST_DELAY_MS, baseDelayMs * 2 ** Math.min(n - 1, 40)) * (0.5 + random.float() / 2));
  if (requestedMs === null) return backOff(Math.max(1, refusals));
  return Math.max(requestedMs, backOff(refusals - BELIEVED_REFUSALS)) + backOff(1) / 4;
}
