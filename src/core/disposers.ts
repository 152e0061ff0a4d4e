/** What was opened, closed in reverse: an AsyncDisposableStack, as far as it is needed, for Node 22 has none. */
export class Disposers implements AsyncDisposable {
  #steps: (() => PromiseLike<void> | void)[] = [];

  /** Closes `resource` with the others, and returns it. */
  use<T extends AsyncDisposable>(resource: T): T {
    this.defer(() => resource[Symbol.asyncDispose]());
    return resource;
  }

  defer(step: () => PromiseLike<void> | void): void {
    this.#steps.push(step);
  }

  /** Hands everything over: closing this one then closes nothing. */
  move(): Disposers {
    const moved = new Disposers();
    moved.#steps = this.#steps;
    this.#steps = [];
    return moved;
  }

  /** Every step is taken; then the first failure is thrown. Safe to call twice. */
  async disposeAsync(): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.#steps.splice(0).toReversed()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.disposeAsync();
  }
}
