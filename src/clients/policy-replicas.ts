/**
 * Knows which replicas of the policy may receive requests, and for which models. A replica is named by its URL without `/v1`. One that failed rests: the client
 * avoids it until its supervisor has given it the current version again. Without a supervisor no replica rests here.
 */
export class PolicyReplicas {
  /** Replicas that have a model; every replica has a model that is not in it, such as the base. */
  readonly #having = new Map<string, Set<string>>();
  readonly #resting = new Set<string>();
  /** The time at which a request for the model was last abandoned at the replica, in milliseconds of `performance.now()`. */
  readonly #abandoned = new Map<string, number>();
  #supervisor: ((replica: string, why: string | null) => void) | null = null;

  /** Calls `onRest` whenever a replica begins to rest, until disposed. */
  supervise(onRest: (replica: string, why: string | null) => void): Disposable {
    this.#supervisor = onRest;
    return {
      [Symbol.dispose]: () => {
        if (this.#supervisor === onRest) this.#supervisor = null;
      },
    };
  }

  /** Records that exactly these replicas have `model`. */
  place(model: string, replicas: readonly string[]): void {
    this.#having.set(model, new Set(replicas));
  }

  /** Records that no replica is asked for `model` any more. */
  forget(model: string): void {
    this.#having.delete(model);
    for (const key of this.#abandoned.keys()) if (key.endsWith(` ${model}`)) this.#abandoned.delete(key);
  }

  has(replica: string, model: string): boolean {
    return this.#having.get(model)?.has(replica) ?? true;
  }

  isResting(replica: string): boolean {
    return this.#resting.has(replica);
  }

  /** True if requests for `model` may be sent to the replica. */
  serves(replica: string, model: string): boolean {
    return !this.isResting(replica) && this.has(replica, model);
  }

  /** The replica gets no requests until it is admitted. `why` says what happened, without a full stop; null if it is only checked. */
  rest(replica: string, why: string | null): void {
    if (this.#supervisor === null || this.#resting.has(replica)) return;
    this.#resting.add(replica);
    this.#supervisor(replica, why);
  }

  /** At the end of a run: the replica serves no longer, and nobody will bring it back. */
  lose(replica: string): void {
    this.#resting.add(replica);
  }

  /** Ends a rest. `models` are those that the replica serves now; a restarted one has lost its adapters. */
  admit(replica: string, models: readonly string[]): void {
    for (const [model, having] of this.#having) {
      if (models.includes(model)) having.add(replica);
      else having.delete(replica);
    }
    this.#resting.delete(replica);
  }

  /** Records that a request ended without an answer: the replica may still compute it. */
  abandon(replica: string, model: string): void {
    this.#abandoned.set(`${replica} ${model}`, performance.now());
  }

  /** Milliseconds since a request for the model was last abandoned at the replica; null if none was. */
  abandonedMsAgo(replica: string, model: string): number | null {
    const atMs = this.#abandoned.get(`${replica} ${model}`);
    return atMs === undefined ? null : performance.now() - atMs;
  }
}
