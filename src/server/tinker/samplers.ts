/** Sampling sessions: the base or saved weights, under an id. The engine holds as many adapters as it may; others are loaded again when somebody samples from them. */
import { rm } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import { TinkerRefusal } from './tinker-refusal.ts';
import type { TinkerCompute } from './tinker-compute.ts';

export interface Sampler {
  readonly id: string;
  readonly sessionId: string;
  /** A PEFT directory; null for the base. */
  readonly adapter: string | null;
  /** The checkpoint's path; null for the base, and for weights without a name. */
  readonly modelPath: string | null;
  /** The folder to remove with the session: of weights without a name. */
  readonly folder: string | null;
}

export interface SamplersOptions {
  readonly compute: TinkerCompute;
  /** Adapters that may be loaded at a time. */
  readonly maxLoaded: number;
  readonly signal: AbortSignal;
}

export class Samplers {
  readonly #options: SamplersOptions;
  readonly #samplers = new Map<string, Sampler>();
  /** Names of loaded adapters, by directory. An evicted one is unloaded; samples that run on it finish. */
  readonly #loaded: LRUCache<string, Promise<string>>;
  #names = 0;

  constructor(options: SamplersOptions) {
    this.#options = options;
    const { compute, maxLoaded } = options;
    const unload = (name: Promise<string>) => void name.then((loaded) => compute.unloadAdapter(loaded)).catch(() => {});
    this.#loaded = new LRUCache({ max: maxLoaded, dispose: unload });
  }

  add(sampler: Sampler): void {
    this.#samplers.set(sampler.id, sampler);
  }

  /** Throws TinkerRefusal (404). */
  get(id: string): Sampler {
    const found = this.#samplers.get(id);
    if (found === undefined)
      throw new TinkerRefusal(
        404,
        `There is no sampling session ${JSON.stringify(id.slice(0, 128))} at this server; its session has ended, or it never was`,
      );
    return found;
  }

  has(id: string): boolean {
    return this.#samplers.has(id);
  }

  /** The name under which the sampler's adapter is loaded; null for the base. */
  async adapterOf({ adapter }: Sampler): Promise<string | null> {
    if (adapter === null) return null;
    const known = this.#loaded.get(adapter);
    if (known !== undefined) return known;
    const name = `tinker-${++this.#names}`;
    const { compute, signal } = this.#options;
    const loading = compute.loadAdapter({ name, directory: adapter, signal }).then(() => name);
    this.#loaded.set(adapter, loading);
    // Not kept, so that the next sample tries again.
    loading.catch(() => this.#loaded.delete(adapter));
    return loading;
  }

  /** Forgets the samplers of a session, and removes weights without a name. */
  async end(sessionId: string): Promise<void> {
    for (const sampler of this.#samplers.values()) {
      if (sampler.sessionId !== sessionId) continue;
      this.#samplers.delete(sampler.id);
      if (sampler.folder === null) continue;
      this.#loaded.delete(sampler.adapter!);
      await rm(sampler.folder, { recursive: true, force: true });
    }
  }
}
