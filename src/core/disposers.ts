/** Disposes resources in reverse order: a minimal AsyncDisposableStack, which Node 22 lacks. */
export class Disposers implements AsyncDisposable {
  #steps: (() => PromiseLike<void> | void)[] = [];

  /** Adds a resource and returns it. */
  use<T extends AsyncDisposable>(resource: T): T {
    this.defer(() => resource[Symbol.asyncDispose]());
    return resource;
  }

  defer(step: () => PromiseLike<void> | void): void {
    this.#steps.push(step);
  }

  /** Moves all resources to a new object; disposing this one then does nothing. */
  move(): Disposers {
    const moved = new Disposers();
    moved.#steps = this.#steps;
    this.#steps = [];
    return moved;
  }

  /** Runs every step even if some fail, then throws the first failure. Safe to call twice. */
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
