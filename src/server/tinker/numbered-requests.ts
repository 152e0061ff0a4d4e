/**
 * The requests of a model that train, in the order of their numbers: a client sends several at once, and they may arrive in another order. A request without a number
 * takes its turn as it arrives. One that is sent again gets what it got the first time, and nothing runs twice.
 */
import { TinkerRefusal } from './tinker-refusal.ts';

interface Waiting {
  readonly run: () => void;
  readonly refuse: (error: TinkerRefusal) => void;
}

/** A client that died in the middle leaves a gap. Its later requests then fail, where the hosted service would let them wait without end. */
const GAP_MS = 120_000;
const [MOST_WAITING, MOST_REMEMBERED] = [1024, 4096] as const;

const ENDED = 'The model was unloaded, or its session has ended';

export class NumberedRequests {
  readonly #gapMs: number;
  readonly #remembered = new Map<number, { readonly content: string; readonly id: string }>();
  readonly #waiting = new Map<number, Waiting>();
  #turn: Promise<unknown> = Promise.resolve();
  #isEnded = false;
  #next = 1;
  #timer: NodeJS.Timeout | undefined;

  /** @param gapMs the time for which a request waits for one with a lower number. @default two minutes */
  constructor(gapMs: number = GAP_MS) {
    this.#gapMs = gapMs;
  }

  /**
   * The id of what `begin` makes of the request, or made of it before. `content`: a digest, by which one that is sent again is told from another of the same number.
   * Throws TinkerRefusal.
   */
  take(number: number | null, content: string, begin: (inTurn: <T>(work: () => Promise<T>) => Promise<T>) => string): string {
    if (number === null) return begin((work) => this.#queue(work));
    const known = this.#remembered.get(number);
    if (known !== undefined) {
      if (known.content === content) return known.id;
      throw new TinkerRefusal(400, `The model has had another request with seq_id ${number}; count on from ${this.#next}`);
    }
    if (number < this.#next) throw new TinkerRefusal(410, `The model has had a request with seq_id ${number} long ago; count on from ${this.#next}`);
    if (number > this.#next + MOST_WAITING)
      throw new TinkerRefusal(429, `seq_id ${number} is too far ahead; the next is ${this.#next}`, { retryable: true });
    const id = begin((work) => this.#inOrder(number, work));
    this.#remembered.set(number, { content, id });
    for (const old of this.#remembered.keys()) {
      if (this.#remembered.size <= MOST_REMEMBERED) break;
      this.#remembered.delete(old);
    }
    return id;
  }

  /** Requests that wait fail. Resolves once the one that runs has ended. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#refuse(ENDED);
    await this.#turn;
  }

  #queue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(() => {
      if (this.#isEnded) throw new TinkerRefusal(400, ENDED);
      return work();
    });
    this.#turn = result.catch(() => {});
    return result;
  }

  #inOrder<T>(number: number, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = () => void this.#queue(work).then(resolve, reject);
      this.#waiting.set(number, { run, refuse: reject });
      this.#advance();
    });
  }

  #advance(): void {
    for (let waiting = this.#waiting.get(this.#next); waiting !== undefined; waiting = this.#waiting.get(this.#next)) {
      this.#waiting.delete(this.#next++);
      waiting.run();
    }
    clearTimeout(this.#timer);
    if (this.#waiting.size === 0) return;
    this.#timer = setTimeout(() => this.#giveUp(), this.#gapMs);
    this.#timer.unref();
  }

  #giveUp(): void {
    const missing = this.#next;
    const text = `The request with seq_id ${missing} did not arrive within ${this.#gapMs / 1000} seconds, and later ones wait for it; load the last checkpoint into a new model`;
    this.#next = Math.max(...this.#waiting.keys()) + 1;
    this.#refuse(text);
  }

  #refuse(text: string): void {
    clearTimeout(this.#timer);
    for (const { refuse } of this.#waiting.values()) refuse(new TinkerRefusal(400, text));
    this.#waiting.clear();
  }
}
