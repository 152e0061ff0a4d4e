import { cancelled, untilAborted } from '../core/abort.ts';
import type { PolicyRef } from './policy-client.ts';
import { PolicyReplicas } from './policy-replicas.ts';

/**
 * Tracks the current version of the policy, how many leases hold each older one, and which replicas have which version. The run owns it and passes it
 * to the client (which acquires a version per lease and chooses a replica that has it) and to the publisher (which advances it and waits for old
 * versions to drain).
 * @example new PolicyVersions({ version: 0, model: 'Qwen/Qwen2.5-3B' })
 */
export class PolicyVersions {
  /** The replicas that serve these versions. */
  readonly replicas = new PolicyReplicas();
  /** A generation goes on under new weights when a version is published: each begins with the current version, and the server says which one sampled which token. */
  readonly isInFlight: boolean;
  #current: PolicyRef;
  /** By the names under which they were published. */
  readonly #named = new Map<string, number>();
  #pause: PromiseWithResolvers<void> | null = null;
  readonly #held = new Map<number, { leases: number; readonly drained: PromiseWithResolvers<void> }>();

  /** @param options `isInFlight`: false by default */
  constructor(initial: PolicyRef, { isInFlight = false } = {}) {
    this.#current = initial;
    this.isInFlight = isInFlight;
    this.#named.set(initial.model, initial.version);
  }

  current(): PolicyRef {
    return this.#current;
  }

  /**
   * Pins a version until `release` is called. Further calls of `release` do nothing.
   * @param ref default: the current version; another one must be pinned already
   */
  acquire(ref = this.#current): { ref: PolicyRef; release(): void } {
    const held = this.#held.get(ref.version) ?? { leases: 0, drained: Promise.withResolvers<void>() };
    this.#held.set(ref.version, held);
    held.leases += 1;
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      held.leases -= 1;
      if (held.leases > 0) return;
      this.#held.delete(ref.version);
      held.drained.resolve();
    };
    return { ref, release };
  }

  /**
   * New leases use `next` from now on. Throws RangeError unless its version is higher, or the same under another name (published again after a
   * server lost it).
   * @param replicas the replicas that have it. @default all
   */
  advance(next: PolicyRef, replicas?: readonly string[]): void {
    const { version, model } = this.#current;
    if (next.version < version || (next.version === version && next.model === model)) {
      throw new RangeError(
        `Version ${next.version} (${next.model}) cannot follow version ${version}: it needs a higher number, or the same number under a new name`,
      );
    }
    if (replicas !== undefined) this.replicas.place(next.model, replicas);
    this.#named.set(next.model, next.version);
    this.#current = next;
  }

  /** The version that is or was published under this name; null if none was. */
  versionNamed(model: string): number | null {
    return this.#named.get(model) ?? null;
  }

  /** True while a lease, or a generation in flight, holds the version. */
  isHeld(version: number): boolean {
    return this.#held.has(version);
  }

  /** Generations that begin in flight wait until this is disposed. At most one at a time. */
  pause(): Disposable {
    const pause = Promise.withResolvers<void>();
    this.#pause = pause;
    return {
      [Symbol.dispose]: () => {
        this.#pause = null;
        pause.resolve();
      },
    };
  }

  /** Pins the current version for a generation in flight, after any pause. Rejects with CancelledError when the signal aborts. */
  async acquireInFlight(signal: AbortSignal): Promise<{ ref: PolicyRef; release(): void }> {
    while (this.#pause !== null) await untilAborted(this.#pause.promise, signal, () => cancelled(signal, 'Stopped while new weights were loaded'));
    return this.acquire();
  }

  /**
   * Resolves when no lease holds `version` any more; rejects with CancelledError when the signal aborts. A request that a lease abandoned may still
   * run at its replica: see `replicas.abandonedMsAgo`.
   */
  async drained(version: number, signal: AbortSignal): Promise<void> {
    const held = this.#held.get(version);
    if (held === undefined) return;
    await untilAborted(held.drained.promise, signal, () => cancelled(signal, `Stopped waiting for policy version ${version} to drain`));
  }
}
