/** An answer that many want: asked for once, and again after a failure. */
export class AskedOnce<T> {
  #answer: Promise<T> | null;

  /** `known` spares the asking. */
  constructor(known?: T) {
    this.#answer = known === undefined ? null : Promise.resolve(known);
  }

  get(ask: () => Promise<T>): Promise<T> {
    if (this.#answer !== null) return this.#answer;
    const answer = ask();
    this.#answer = answer;
    answer.catch(() => (this.#answer = null));
    return answer;
  }
}
