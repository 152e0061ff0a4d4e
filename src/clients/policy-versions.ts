import { CancelledError } from '../core/errors.ts';
import type { PolicyRef } from './policy-client.ts';

/**
 * Which version of the policy serves, and who still uses an old one. Owned by the run and given to the client (which acquires one per
 * lease) and to the publisher (which advances it and waits for old versions to drain).
 */
export class PolicyVersions {
  #current: PolicyRef;
  readonly #held = new Map<number, number>();
  readonly #waiting = new Map<number, Set<() => void>>();

  constructor(initial: PolicyRef) {
    this.#current = initial;
  }

  current(): PolicyRef {
    return this.#current;
  }

  /** Pins the current version until `release`, which may be called more than once. */
  acquire(): { ref: PolicyRef; release(): void } {
    const ref = this.#current;
    this.#held.set(ref.version, (this.#held.get(ref.version) ?? 0) + 1);
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      const left = this.#held.get(ref.version)! - 1;
      if (left > 0) this.#held.set(ref.version, left);
      else this.#drained(ref.version);
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
  drained(version: number, signal: AbortSignal): Promise<void> {
    if (!this.#held.has(version)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const waiters = this.#waiting.get(version) ?? new Set();
      this.#waiting.set(version, waiters);
      const done = () => {
        signal.removeEventListener('abort', aborted);
        resolve();
      };
      const aborted = () => {
        waiters.delete(done);
        reject(new CancelledError(`Stopped waiting for policy version ${version} to drain`, { cause: signal.reason }));
      };
      if (signal.aborted) return aborted();
      signal.addEventListener('abort', aborted, { once: true });
      waiters.add(done);
    });
  }

  #drained(version: number): void {
    this.#held.delete(version);
    const waiters = this.#waiting.get(version);
    this.#waiting.delete(version);
    for (const done of waiters ?? []) done();
  }
}
