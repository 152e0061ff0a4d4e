/** Runs calls one after another, in order. A failed call does not stop the next. */
export class CallQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(call: () => Promise<T>): Promise<T> {
    const result = this.#last.then(call);
    this.#last = result.catch(() => {});
    return result;
  }
}
