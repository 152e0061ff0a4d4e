/** The trainer's PolicyServers for the one server that this run started itself: a dead one is started again, so often and no more. */
import { CancelledError, PolicyError, thrownText } from '../core/errors.ts';
import { endText } from './process-group.ts';
import type { VllmProcess } from './vllm-process.ts';

export interface LaunchedServersOptions {
  readonly process: VllmProcess;
  /** In the life of this object. */
  readonly maxRestarts: number;
  /** How long a living server may fail to answer before it counts as dead: one under full load is slow, not dead. @default 60000 */
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

  /** Several callers at once get one recovery after the other, so that only the first finds a dead server. */
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

  /** Why the server is of no use; null when it is well. */
  async #problem(signal: AbortSignal): Promise<string | null> {
    const server = this.#server;
    const gone = new AbortController();
    if (server.isAlive) {
      void server.exited.then(() => gone.abort());
      try {
        await server.health.wait({ signal: AbortSignal.any([signal, gone.signal]), deadlineMs: this.#silentMs, maxDelayMs: 1000 });
        return null;
      } catch (error) {
        if (signal.aborted) throw new CancelledError('Stopped while the policy server was looked after', { cause: error });
        if (server.isAlive) return `it is there but not well: ${thrownText(error)}`;
      }
    }
    const end = await server.exited;
    const last = end.lastLines.at(-1);
    return `it ended with ${endText(end)}${last === undefined ? '' : `; it said last: ${last}`}`;
  }

  /** Null when the server is well again, else why it is not. */
  async #restart(why: string, signal: AbortSignal): Promise<string | null> {
    const { maxRestarts, onEvent } = this.#options;
    if (this.#restarts >= maxRestarts) {
      throw new PolicyError(
        `Expected the vLLM server of this run to stay alive, but after ${this.#restarts} of ${maxRestarts} restarts ${why}; its log is ${this.#server.logPath}`,
      );
    }
    this.#restarts++;
    onEvent?.(`the policy server is started again (${this.#restarts} of ${maxRestarts}): ${why}`);
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
