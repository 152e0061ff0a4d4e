/**
 * Changes the weights under generations in flight, on one vLLM of version 0.32 or later. The server pauses, every adapter under which something is generated gets the new weights, the
 * label that tokens are recorded with changes, and the server goes on. Pausing with `mode=keep` drops what was computed of each request (its KV cache): when the server goes on it
 * computes prompt and tokens again under the new weights, so a later token is sampled from the new weights alone.
 */
import { copyFile, link, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { PolicyRef } from '../../clients/policy-client.ts';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { PublishError } from '../../core/errors.ts';
import { type LoadedAdapter, type LoadedAdapters, serverPath } from './loaded-adapters.ts';
import type { LoraReplica } from './lora-routes.ts';
import { asVfError } from './publish-failure.ts';

export interface InFlightSwitchOptions {
  readonly versions: PolicyVersions;
  readonly adapters: LoadedAdapters;
  /** The server's path of the run's directory of adapters; null if it is the same. */
  readonly serverDirectory: string | null;
  /** Deadline of the whole switch, and of undoing it. */
  readonly timeoutMs: number;
}

/** PEFT's name. */
const WEIGHTS = 'adapter_model.safetensors';
/** A label of no version: tokens that are sampled under it are refused. */
const SWITCHING = 'switching';

export class InFlightSwitch {
  readonly #options: InFlightSwitchOptions;

  constructor(options: InFlightSwitchOptions) {
    this.#options = options;
  }

  /**
   * Switches to `ref`, whose adapter the replica has loaded and proved to apply. A switch that has begun is finished or undone whatever aborts meanwhile. Rejects with PublishError: the
   * version before serves on, unless `endsRun` is true.
   */
  async advance(replica: LoraReplica, ref: PolicyRef, adapter: LoadedAdapter): Promise<void> {
    const { versions, adapters } = this.#options;
    const before = versions.current();
    using _ = versions.pause();
    const held = adapters.heldAt(replica).filter(({ directory }) => directory !== adapter.directory);
    try {
      await this.#whilePaused(
        replica,
        async (signal) => {
          await replica.command('/update_weight_version', { new_version: SWITCHING }, signal);
          for (const each of held) await this.#give(replica, each, adapter.directory, signal);
          await this.label(replica, ref, signal);
          versions.advance(ref, [replica.url]);
        },
        (error) => this.#undo(replica, before, held, error),
      );
    } catch (error) {
      if (versions.current() === before) await adapters.takeBack(adapter, this.#deadline());
      throw error;
    }
    await Promise.all(held.map(({ directory }) => rm(keptOf(directory), { force: true })));
  }

  /** Tokens that the replica samples from now on are recorded under this version. */
  async label(replica: LoraReplica, { model }: PolicyRef, signal: AbortSignal): Promise<void> {
    await replica.command('/update_weight_version', { new_version: model }, signal);
  }

  /** Rejects with a PublishError that ends the run: a server that stays paused samples nothing. */
  async resume(replica: LoraReplica): Promise<void> {
    await replica.command('/resume', null, this.#deadline()).catch((error: unknown) => {
      throw new PublishError(`${replica.url} is paused and did not go on: ${asVfError(error).message}. Send it POST /resume, or restart it`, {
        cause: error,
        endsRun: true,
      });
    });
  }

  async #whilePaused(replica: LoraReplica, act: (signal: AbortSignal) => Promise<void>, undo: (error: unknown) => Promise<void>): Promise<void> {
    const signal = this.#deadline();
    try {
      await replica.command('/pause?mode=keep', null, signal);
      await act(signal).catch(async (error: unknown) => {
        await undo(error);
        throw error;
      });
    } finally {
      await this.resume(replica);
    }
  }

  #pathOf(directory: string): string {
    return serverPath(this.#options.adapters, directory, this.#options.serverDirectory);
  }

  #deadline(): AbortSignal {
    return AbortSignal.timeout(this.#options.timeoutMs);
  }

  /** The file is replaced too, because the server reads it again where it has dropped the adapter from its memory. */
  async #give(replica: LoraReplica, { name, directory }: LoadedAdapter, from: string, signal: AbortSignal): Promise<void> {
    await rm(keptOf(directory), { force: true });
    await link(join(directory, WEIGHTS), keptOf(directory));
    await copyFile(join(from, WEIGHTS), join(directory, `${WEIGHTS}.new`));
    await rename(join(directory, `${WEIGHTS}.new`), join(directory, WEIGHTS));
    // From the new version's own directory, which the server is known to see.
    await replica.command('/v1/load_lora_adapter', { lora_name: name, lora_path: this.#pathOf(from), load_inplace: true }, signal);
  }

  async #undo(replica: LoraReplica, before: PolicyRef, held: readonly LoadedAdapter[], why: unknown): Promise<void> {
    const signal = this.#deadline();
    try {
      for (const { name, directory } of held) {
        await rename(keptOf(directory), join(directory, WEIGHTS)).catch(() => {});
        await replica.command('/v1/load_lora_adapter', { lora_name: name, lora_path: this.#pathOf(directory), load_inplace: true }, signal);
      }
      await this.label(replica, before, signal);
    } catch (error) {
      throw new PublishError(
        `Generations in flight have weights of two versions: ${asVfError(why).message}; and undoing failed: ${asVfError(error).message}. Restart the server`,
        { cause: error, endsRun: true },
      );
    }
  }
}

/** The weights before a switch, until it has succeeded. */
function keptOf(directory: string): string {
  return join(directory, `${WEIGHTS}.before`);
}
