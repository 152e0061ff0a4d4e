/** Finished items that the reader has not taken yet. */
export class Inbox<T> {
  #items: T[] = [];
  #ended = false;
  #arrival = Promise.withResolvers<void>();

  add(item: T): void {
    this.#items.push(item);
    this.#arrival.resolve();
  }

  end(): void {
    this.#ended = true;
    this.#arrival.resolve();
  }

  /** Everything that has arrived, waiting for the first; empty at the end. */
  async take(): Promise<readonly T[]> {
    await this.#arrival.promise;
    const items = this.#items;
    this.#items = [];
    if (!this.#ended) this.#arrival = Promise.withResolvers();
    return items;
  }
}
