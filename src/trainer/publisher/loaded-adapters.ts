/**
 * Tracks which replica has loaded which adapter, undoes a failed publish and removes old versions. A directory is deleted only after every replica
 * has unloaded it, because a server rereads it whenever it swaps the adapter in. What fails here is retried at the next `retire`.
 */
import { readdir, rm } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { CancelledError, PublishError, type VfError } from '../../core/errors.ts';
import { untilEnded } from './ended-requests.ts';
import type { LoraReplica } from './lora-routes.ts';
import { asVfError } from './publish-failure.ts';
import { withoutTrailingSlashes } from '../../core/server-url.ts';

export interface LoadedAdapter {
  readonly version: number;
  readonly name: string;
  /** Local and absolute. */
  readonly directory: string;
  /** `asked`: a load was requested and its outcome is unknown, so the adapter may still appear. */
  readonly replicas: Map<LoraReplica, 'asked' | 'loaded'>;
}

/** An adapter that a replica did not unload. */
export interface LeftAdapter {
  readonly replica: LoraReplica;
  readonly name: string;
  readonly error: VfError;
}

/** After this time, an abandoned request has ended at its replica. */
const STILL_COMPUTED_MS = 60_000;

export class LoadedAdapters {
  /** Failed unloads and deletions so far, retries included. */
  failures = 0;
  readonly #adapters = new Set<LoadedAdapter>();
  /** Names that a resting replica must unload when it is back. */
  readonly #owed = new Map<LoraReplica, Set<string>>();
  readonly #versions: PolicyVersions;
  readonly #ownDirectory: string;
  readonly #baseModel: string;

  /** `ownDirectory`: everything under it may be deleted. `baseModel`: the servers' name of it. */
  constructor(versions: PolicyVersions, ownDirectory: string, baseModel: string) {
    this.#versions = versions;
    this.#baseModel = baseModel;
    this.#ownDirectory = resolve(ownDirectory);
  }

  add(version: number, name: string, directory: string): LoadedAdapter {
    const adapter: LoadedAdapter = { version, name, directory: resolve(directory), replicas: new Map() };
    this.#adapters.add(adapter);
    return adapter;
  }

  /** Those that the replica has and under whose version something is played or generated. */
  heldAt(replica: LoraReplica): readonly LoadedAdapter[] {
    return [...this.#adapters].filter(({ version, replicas }) => replicas.has(replica) && this.#versions.isHeld(version));
  }

  /** The path relative to the run's own directory; null if outside it. */
  ownPath(directory: string): string | null {
    const path = relative(this.#ownDirectory, resolve(directory));
    return path === '' || path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path) ? null : path;
  }

  /** Unloads an adapter that must not serve from every replica that may have it; its directory stays for another attempt. */
  async takeBack({ name, replicas }: LoadedAdapter, signal: AbortSignal): Promise<void> {
    const unload = async (replica: LoraReplica) => {
      const unloaded = await this.#attempt(() => replica.unload(name, signal));
      if (unloaded === true || (unloaded === false && replicas.get(replica) === 'loaded')) replicas.delete(replica);
    };
    await Promise.all([...replicas.keys()].map(unload));
  }

  /** The replica must unload the adapter before it serves again: it does not answer now, or applies it wrongly. */
  owe({ name, replicas }: LoadedAdapter, replica: LoraReplica): void {
    if (!replicas.delete(replica)) return;
    this.#owed.set(replica, (this.#owed.get(replica) ?? new Set()).add(name));
  }

  /** Unloads what the replica could not unload while it rested. Rejects as `unload` does. */
  async settle(replica: LoraReplica, signal: AbortSignal): Promise<void> {
    const owed = this.#owed.get(replica) ?? new Set();
    for (const name of owed) {
      await replica.unload(name, signal);
      owed.delete(name);
    }
  }

  /**
   * Waits for the leases of versions below `olderThan` and for the requests that they abandoned, unloads them and deletes their directories. Never touches the version that serves or newer
   * ones. Rejects with CancelledError only.
   */
  async retire(olderThan: number, signal: AbortSignal): Promise<void> {
    const limit = Math.min(olderThan, this.#versions.current().version);
    const due = [...this.#adapters].filter(({ version }) => version < limit);
    for (const version of new Set(due.map((adapter) => adapter.version))) await this.#versions.drained(version, signal);
    await Promise.all(due.map((adapter) => this.#unloadEverywhere(adapter, signal)));
    if (signal.aborted) throw new CancelledError('Stopped while unloading old versions', { cause: signal.reason });
    await this.#forget(due);
  }

  /**
   * For the end of a run, when nothing samples any more: unloads what this session has loaded, but for the adapter `kept`. Resolves with what could not be unloaded in time: it stays,
   * with its directory.
   */
  async withdraw(kept: string | null, signal: AbortSignal): Promise<readonly LeftAdapter[]> {
    const left: LeftAdapter[] = [];
    const due = [...this.#adapters].filter(({ name }) => name !== kept);
    await Promise.all(
      due.map((adapter) => this.#unloadEverywhere(adapter, signal, (replica, error) => left.push({ replica, name: adapter.name, error }))),
    );
    await this.#forget(due);
    return left;
  }

  /** Deletes the directories of adapters that no replica has. */
  async #forget(adapters: readonly LoadedAdapter[]): Promise<void> {
    for (const adapter of adapters) {
      if (adapter.replicas.size > 0 || (await this.#deleteDirectory(adapter)) !== true) continue;
      this.#adapters.delete(adapter);
      this.#versions.replicas.forget(adapter.name);
    }
  }

  /** Unloads everything that was loaded from the run's own directory, then empties the directory. */
  async clear(replicas: readonly LoraReplica[], serverDirectory: string | null, signal: AbortSignal): Promise<void> {
    const seen = withoutTrailingSlashes(serverDirectory ?? this.#ownDirectory);
    const clearOne = async (replica: LoraReplica) => {
      const left = (await replica.cards(signal)).filter(({ root }) => root?.startsWith(`${seen}/`));
      await Promise.all(left.map(({ id }) => replica.unload(id, signal)));
      return true;
    };
    const outcomes = await Promise.all(replicas.map((replica) => this.#attempt(() => clearOne(replica))));
    if (signal.aborted) throw new CancelledError('Stopped while unloading adapters of an earlier session', { cause: signal.reason });
    // A server that still has one may reread its directory.
    if (outcomes.includes(null)) return;
    await this.#attempt(async () => {
      for (const name of await readdir(this.#ownDirectory).catch(() => []))
        await rm(join(this.#ownDirectory, name), { recursive: true, force: true });
    });
  }

  /** A resting replica unloads it when it is back: nothing is asked of it meanwhile, so it does not read the directory. */
  async #unloadEverywhere(
    adapter: LoadedAdapter,
    signal: AbortSignal,
    onFailure: (replica: LoraReplica, error: VfError) => void = () => {},
  ): Promise<void> {
    const { name, replicas } = adapter;
    const unload = async (replica: LoraReplica) => {
      const abandonedMs = this.#versions.replicas.abandonedMsAgo(replica.url, name);
      if (this.#versions.replicas.isResting(replica.url)) {
        // The replica may still compute an abandoned request and read the directory for it. The next `retire` decides again.
        if (abandonedMs === null || abandonedMs > STILL_COMPUTED_MS) this.owe(adapter, replica);
        return;
      }
      const unloaded = await this.#attempt(
        async () => {
          if (abandonedMs !== null) await untilEnded(replica, { model: name, baseModel: this.#baseModel, agoMs: abandonedMs }, signal);
          return await replica.unload(name, signal);
        },
        (error) => onFailure(replica, error),
      );
      if (unloaded !== null) replicas.delete(replica);
    };
    await Promise.all([...replicas.keys()].map(unload));
  }

  /** True if nothing is left to do; null if the deletion failed. */
  async #deleteDirectory(adapter: LoadedAdapter): Promise<true | null> {
    const { directory } = adapter;
    const isUsed = [...this.#adapters].some((other) => other !== adapter && other.directory === directory);
    if (isUsed || this.ownPath(directory) === null) return true;
    return await this.#attempt(async () => {
      await rm(directory, { recursive: true, force: true });
      return true as const;
    });
  }

  /** Returns null if `act` failed. */
  async #attempt<T>(act: () => Promise<T>, onFailure: (error: VfError) => void = () => {}): Promise<T | null> {
    try {
      return await act();
    } catch (error) {
      onFailure(asVfError(error));
      // A cancellation is not the server's failure.
      if (!(error instanceof CancelledError)) this.failures += 1;
      return null;
    }
  }
}

/** The server's path of a local directory; `serverDirectory` is null if both see the same paths. */
export function serverPath(adapters: LoadedAdapters, directory: string, serverDirectory: string | null): string {
  if (serverDirectory === null) return resolve(directory);
  const path = adapters.ownPath(directory);
  if (path !== null) return `${withoutTrailingSlashes(serverDirectory)}/${path.split(sep).join('/')}`;
  throw new PublishError(
    `The adapter at ${directory} is outside the run's adapters folder, which the server sees as ${serverDirectory}. Copy it there`,
  );
}
