/** Calls one after another, in the order they came; one that fails does not hold up the next. */
export class CallQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(call: () => Promise<T>): Promise<T> {
    const result = this.#last.then(call);
    this.#last = result.catch(() => {});
    return result;
  }
}
