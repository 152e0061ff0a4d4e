/** A value that many callers need: requested once, and again only after a failure. */
export class AskedOnce<T> {
  #answer: Promise<T> | null;

  /** `known`: the value, if it is known already. */
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
