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
  /** Tells the weights in the directory from earlier ones of the same name. */
  readonly version: string;
  /** Tells whether the directory still holds that version. */
  readonly isCurrent: () => Promise<boolean>;
  /** The checkpoint's path; null for the base, and for weights without a name. */
  readonly modelPath: string | null;
  /** The folder to remove with the session: of weights without a name. */
  readonly folder: string | null;
}

/** Weights without a name that a session keeps: a run samples from the latest, and may still have samples of those before. Each is an adapter on disk. */
const [MOST_NAMELESS, MOST_SAMPLERS] = [32, 65_536] as const;

export interface SamplersOptions {
  readonly compute: TinkerCompute;
  /** Adapters that may be loaded at a time. */
  readonly maxLoaded: number;
  readonly signal: AbortSignal;
}

export class Samplers {
  readonly #options: SamplersOptions;
  readonly #samplers = new Map<string, Sampler>();
  /** Names of loaded adapters, by directory and version. An evicted one is unloaded; samples that run on it finish. */
  readonly #loaded: LRUCache<string, Promise<string>>;
  #names = 0;

  constructor(options: SamplersOptions) {
    this.#options = options;
    const { compute, maxLoaded } = options;
    const unload = (name: Promise<string>) => void name.then((loaded) => compute.unloadAdapter(loaded)).catch(() => {});
    this.#loaded = new LRUCache({ max: maxLoaded, dispose: unload });
  }

  /**
   * One that is added again changes nothing. Throws TinkerRefusal: 400 for another one of the same id, 429 if there are too many. Of a session's weights without a name,
   * the oldest ones go.
   */
  async add(sampler: Sampler): Promise<void> {
    const known = this.#samplers.get(sampler.id);
    if (known !== undefined) {
      if (known.adapter === sampler.adapter && known.version === sampler.version) return;
      throw new TinkerRefusal(400, `The sampling session ${sampler.id} has other weights; count on with sampling_session_seq_id`);
    }
    if (this.#samplers.size >= MOST_SAMPLERS)
      throw new TinkerRefusal(429, `${MOST_SAMPLERS} sampling sessions are open already; finish the sessions that are done`, { retryable: true });
    this.#samplers.set(sampler.id, sampler);
    if (sampler.folder === null) return;
    const nameless = [...this.#samplers.values()].filter(({ sessionId, folder }) => folder !== null && sessionId === sampler.sessionId);
    for (const old of nameless.slice(0, -MOST_NAMELESS)) await this.#remove(old);
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

  /** The session's. */
  idsOf(session: string): readonly string[] {
    return [...this.#samplers.values()].flatMap(({ id, sessionId }) => (sessionId === session ? [id] : []));
  }

  /** The name under which the sampler's adapter is loaded; null for the base. */
  async adapterOf({ adapter, version, isCurrent }: Sampler): Promise<string | null> {
    if (adapter === null) return null;
    const key = keyOf(adapter, version);
    const known = this.#loaded.get(key);
    if (known !== undefined) return known;
    const name = `tinker-${++this.#names}`;
    const { compute, signal } = this.#options;
    const load = async () => {
      if (!(await isCurrent()))
        throw new TinkerRefusal(404, 'The weights of this sampling session were deleted or written over; open a session for those of now');
      await compute.loadAdapter({ name, directory: adapter, signal });
      return name;
    };
    const loading = load();
    this.#loaded.set(key, loading);
    // Not kept, so that the next sample tries again.
    loading.catch(() => this.#loaded.delete(key));
    return loading;
  }

  /** Forgets the samplers of a session, and removes weights without a name. */
  async end(sessionId: string): Promise<void> {
    for (const sampler of this.#samplers.values()) {
      if (sampler.sessionId === sessionId) await this.#remove(sampler);
    }
  }

  async #remove({ id, adapter, version, folder }: Sampler): Promise<void> {
    this.#samplers.delete(id);
    if (folder === null) return;
    this.#loaded.delete(keyOf(adapter!, version));
    await rm(folder, { recursive: true, force: true });
  }
}

function keyOf(adapter: string, version: string): string {
  return `${adapter} ${version}`;
}
