/** Work by a key. Callers that ask for one key at the same time share the work; the most recently used results are kept. */
import { LRUCache } from 'lru-cache';
import { SharedFlight } from 'vf-search/environment-kit';

export class SharedWork<T extends object> {
  readonly #kept: LRUCache<string, T>;
  readonly #flights = new Map<string, SharedFlight<T>>();

  /** @param most the number of results that are kept */
  constructor(most: number) {
    this.#kept = new LRUCache({ max: most });
  }

  /** Does the work unless its result is kept. A caller whose signal aborts leaves; the work stops once the last one has left. A failure is not kept. */
  async get(key: string, work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const known = this.#flights.get(key);
    const flight = known === undefined || known.isAbandoned ? this.#start(key, work) : known;
    return flight.wait(signal);
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<T>): SharedFlight<T> {
    const flight = new SharedFlight(async (signal) => {
      try {
        const made = await work(signal);
        this.#kept.set(key, made);
        return made;
      } finally {
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
      }
    });
    this.#flights.set(key, flight);
    return flight;
  }
}
