/**
 * The adapters that requests can name. An unloaded adapter still serves its running requests; its memory is freed after the last of them. Ids are never reused, so a
 * cached prefix of an old adapter cannot be mistaken for one of a new adapter.
 */
import type { PlacedAdapter } from './adapters/place-adapter.ts';
import type { SharedMemory } from './compute/memory.ts';
import { EngineInputError } from './engine-errors.ts';
import type { LoadedAdapter } from './engine-types.ts';
import type { AdapterWeights } from './model/model-types.ts';

interface NamedAdapter extends PlacedAdapter {
  readonly about: LoadedAdapter;
}

export interface ServedAdaptersOptions {
  readonly memory: SharedMemory;
  /** Reads and checks a directory, and places the adapter in memory under this id. */
  readonly place: (adapter: { readonly name: string; readonly directory: string; readonly signal: AbortSignal }, id: number) => Promise<NamedAdapter>;
  /** Resolves once no thread reads the adapter any more. Rejects if the threads are gone. */
  readonly forget: (id: number) => Promise<void>;
}

interface Served extends NamedAdapter {
  users: number;
  isOffered: boolean;
}

/** One request's hold on an adapter. */
export interface AdapterUse extends Disposable {
  /** Null is the base model. */
  readonly weights: AdapterWeights | null;
}

const BASE: AdapterUse = { weights: null, [Symbol.dispose]() {} };

export class ServedAdapters {
  readonly #options: ServedAdaptersOptions;
  readonly #byName = new Map<string, Served>();
  readonly #loading = new Set<string>();
  #nextId = 1;

  constructor(options: ServedAdaptersOptions) {
    this.#options = options;
  }

  get list(): readonly LoadedAdapter[] {
    return [...this.#byName.values()].map(({ about }) => about);
  }

  load(adapter: { readonly name: string; readonly directory: string; readonly signal: AbortSignal }): Promise<LoadedAdapter> {
    return this.add(adapter.name, (id) => this.#options.place(adapter, id));
  }

  /** Offers the adapter that `place` puts in memory under the given id. Rejects with EngineInputError if the name is taken or empty, and with what `place` throws. */
  async add(name: string, place: (id: number) => Promise<NamedAdapter>): Promise<LoadedAdapter> {
    if (name === '') throw new EngineInputError('The name of an adapter must not be empty.', { param: 'lora_name' });
    if (this.#byName.has(name) || this.#loading.has(name)) {
      throw new EngineInputError(`The adapter '${name}' has already been loaded. Unload it first, or choose another name.`, {
        code: 'name_taken',
        param: 'lora_name',
      });
    }
    this.#loading.add(name);
    try {
      const placed = await place(this.#nextId++);
      this.#byName.set(name, { ...placed, users: 0, isOffered: true });
      return placed.about;
    } finally {
      this.#loading.delete(name);
    }
  }

  unload(name: string): boolean {
    const served = this.#byName.get(name);
    if (served === undefined) return false;
    this.#byName.delete(name);
    served.isOffered = false;
    this.#freeIfUnused(served);
    return true;
  }

  /** Throws EngineInputError if no adapter of that name is loaded. */
  use(name: string | null): AdapterUse {
    if (name === null) return BASE;
    const served = this.#byName.get(name);
    if (served === undefined) throw new EngineInputError(`The model \`${name}\` does not exist.`, { code: 'not_found', param: 'model' });
    served.users++;
    return {
      weights: served.weights,
      [Symbol.dispose]: () => {
        served.users--;
        this.#freeIfUnused(served);
      },
    };
  }

  #freeIfUnused(served: Served): void {
    if (!served.isOffered && served.users === 0) void this.#free(served);
  }

  async #free({ weights, region }: Served): Promise<void> {
    try {
      await this.#options.forget(weights.id);
    } catch {
      // The threads are gone, and with them the memory.
      return;
    }
    this.#options.memory.free(region);
  }
}
