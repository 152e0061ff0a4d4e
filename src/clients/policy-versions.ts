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
  #current: PolicyRef;
  readonly #held = new Map<number, { leases: number; readonly drained: PromiseWithResolvers<void> }>();

  constructor(initial: PolicyRef) {
    this.#current = initial;
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
    this.#current = next;
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
