import { cancelled, untilAborted } from '../core/abort.ts';
import type { PolicyRef } from './policy-client.ts';

/**
 * Which version of the policy serves, and who still uses an old one. Owned by the run and given to the client (which acquires one per
 * lease) and to the publisher (which advances it and waits for old versions to drain).
 */
export class PolicyVersions {
  #current: PolicyRef;
  readonly #held = new Map<number, { leases: number; readonly drained: PromiseWithResolvers<void> }>();

  constructor(initial: PolicyRef) {
    this.#current = initial;
  }

  current(): PolicyRef {
    return this.#current;
  }

  /** Pins the current version until `release`, which may be called more than once. */
  acquire(): { ref: PolicyRef; release(): void } {
    const ref = this.#current;
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

  /** New leases use `next` from now on. Versions only rise; the same version may come again under another name, when a server lost the first. */
  advance(next: PolicyRef): void {
    const { version, model } = this.#current;
    if (next.version < version || (next.version === version && next.model === model)) {
      throw new RangeError(
        `Version ${next.version} as ${next.model} does not follow version ${version}: a later version has a higher number, or the same under a new name`,
      );
    }
    this.#current = next;
  }

  /** Resolves once nobody holds `version` any more; rejects with CancelledError when the signal aborts. */
  async drained(version: number, signal: AbortSignal): Promise<void> {
    const held = this.#held.get(version);
    if (held === undefined) return;
    await untilAborted(held.drained.promise, signal, () => cancelled(signal, `Stopped waiting for policy version ${version} to drain`));
  }
}
