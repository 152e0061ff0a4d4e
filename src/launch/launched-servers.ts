/** The trainer's PolicyServers for the one server that this run started itself: restarts a dead server, up to a limit. */
import { CancelledError, PolicyError, thrownText } from '../core/errors.ts';
import { endText } from './process-group.ts';
import type { VllmProcess } from './vllm-process.ts';

export interface LaunchedServersOptions {
  readonly process: VllmProcess;
  /** Limit over the life of this object. */
  readonly maxRestarts: number;
  /** How long a running server may fail to answer before it counts as dead; under full load it may just be slow. @default 60000 */
  readonly silentMs?: number;
  readonly onEvent?: (text: string) => void;
}

export class LaunchedServers {
  readonly #server: VllmProcess;
  readonly #options: LaunchedServersOptions;
  #restarts = 0;
  #recovery: Promise<unknown> = Promise.resolve();

  constructor(options: LaunchedServersOptions) {
    this.#server = options.process;
    this.#options = options;
  }

  /** Restarts so far. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Concurrent calls recover one after the other, so that only the first finds a dead server. */
  recover(model: string, signal: AbortSignal): Promise<{ readonly lostAdapters: boolean }> {
    const turn = this.#recovery.then(() => this.#recover(model, signal));
    this.#recovery = turn.catch(() => {});
    return turn;
  }

  async #recover(model: string, signal: AbortSignal): Promise<{ readonly lostAdapters: boolean }> {
    let why = await this.#problem(signal);
    while (why !== null) {
      why = await this.#restart(why, signal);
    }
    const names = await this.#server.health.models({ signal, deadlineMs: this.#silentMs });
    return { lostAdapters: !names.includes(model) };
  }

  /** Why the server is unusable; null if it is healthy. */
  async #problem(signal: AbortSignal): Promise<string | null> {
    const server = this.#server;
    const gone = new AbortController();
    if (server.isAlive) {
      void server.exited.then(() => gone.abort());
      try {
        await server.health.wait({ signal: AbortSignal.any([signal, gone.signal]), deadlineMs: this.#silentMs, maxDelayMs: 1000 });
        return null;
      } catch (error) {
        if (signal.aborted) throw new CancelledError('Stopped while checking the policy server', { cause: error });
        if (server.isAlive) return `it is running but unhealthy: ${thrownText(error)}`;
      }
    }
    const end = await server.exited;
    const last = end.lastLines.at(-1);
    return `it ended with ${endText(end)}${last === undefined ? '' : `; last log line: ${last}`}`;
  }

  /** Null once the server is healthy again, else why it is not. */
  async #restart(why: string, signal: AbortSignal): Promise<string | null> {
    const { maxRestarts, onEvent } = this.#options;
    if (this.#restarts >= maxRestarts) {
      throw new PolicyError(
        `The vLLM server of this run failed after ${this.#restarts} of ${maxRestarts} restarts: ${why}. Its log is ${this.#server.logPath}.`,
      );
    }
    this.#restarts++;
    onEvent?.(`restarting the policy server (${this.#restarts} of ${maxRestarts}): ${why}`);
    try {
      await this.#server.restart(signal);
      return null;
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      return error.message;
    }
  }

  get #silentMs(): number {
    return this.#options.silentMs ?? 60_000;
  }
}
