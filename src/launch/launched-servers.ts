/** The trainer's PolicyServers for the servers that this run started itself: restarts a dead one, up to a limit, while the others serve. */
import { CancelledError, PolicyError, thrownText } from '../core/errors.ts';
import { endText } from '../files/process-group.ts';
import type { ServerEnd, VllmProcess } from './vllm-process.ts';

export interface LaunchedServersOptions {
  /** One per replica. */
  readonly processes: readonly VllmProcess[];
  /** Limit for each replica over the life of this object. */
  readonly maxRestarts: number;
  /** The time for which a running server may fail to answer before it counts as dead, in milliseconds; under full load it may just be slow. @default 60000 */
  readonly silentMs?: number;
  readonly onEvent?: (text: string) => void;
}

export class LaunchedServers {
  readonly #servers: ReadonlyMap<string, LaunchedServer>;

  constructor({ processes, ...options }: LaunchedServersOptions) {
    this.#servers = new Map(processes.map((server) => [server.health.url, new LaunchedServer(server, options)]));
  }

  get replicas(): readonly string[] {
    return [...this.#servers.keys()];
  }

  /** Restarts so far, of all replicas. */
  get restarts(): number {
    return [...this.#servers.values()].reduce((sum, { restarts }) => sum + restarts, 0);
  }

  /** Concurrent calls for a replica share one restart. Throws PolicyError after too many of them. */
  async revive(replica: string, signal: AbortSignal): Promise<void> {
    const server = this.#servers.get(replica);
    if (server === undefined) throw new PolicyError(`The run has started no policy server ${replica}.`);
    await server.revive(signal);
  }

  /** Restarts a server that answers but computes nothing. Throws PolicyError after too many restarts. */
  async renew(replica: string, why: string, signal: AbortSignal): Promise<void> {
    await this.#servers.get(replica)?.renew(why, signal);
  }

  /** Calls `onLost` when a server ends, until disposed. */
  watch(onLost: (replica: string, why: string) => void): Disposable {
    let isWatching = true;
    for (const [replica, server] of this.#servers) server.onEnd = (why) => isWatching && onLost(replica, why);
    return { [Symbol.dispose]: () => void (isWatching = false) };
  }
}

class LaunchedServer {
  restarts = 0;
  onEnd: (why: string) => void = () => {};
  readonly #server: VllmProcess;
  readonly #options: Omit<LaunchedServersOptions, 'processes'>;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(server: VllmProcess, options: Omit<LaunchedServersOptions, 'processes'>) {
    this.#server = server;
    this.#options = options;
    this.#watchEnd();
  }

  /** One after the other, so that only the first call finds a dead server. */
  revive(signal: AbortSignal): Promise<void> {
    const turn = this.#turn.then(() => this.#revive(signal));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** Restarts the server even if it reports that it is healthy. */
  renew(why: string, signal: AbortSignal): Promise<void> {
    const turn = this.#turn.then(() => this.#untilHealthy(why, signal));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  async #revive(signal: AbortSignal): Promise<void> {
    await this.#untilHealthy(await this.#problem(signal), signal);
  }

  async #untilHealthy(problem: string | null, signal: AbortSignal): Promise<void> {
    let why = problem;
    while (why !== null) why = await this.#restart(why, signal);
  }

  /** The reason why the server is unusable; null if it is healthy. */
  async #problem(signal: AbortSignal): Promise<string | null> {
    const server = this.#server;
    const gone = new AbortController();
    if (server.isAlive) {
      void server.exited.then(() => gone.abort());
      const deadlineMs = this.#options.silentMs ?? 60_000;
      try {
        await server.health.wait({ signal: AbortSignal.any([signal, gone.signal]), deadlineMs, maxDelayMs: 1000 });
        return null;
      } catch (error) {
        if (signal.aborted) throw new CancelledError('Stopped while checking the policy server', { cause: error });
        if (server.isAlive) return `it is running but unhealthy: ${thrownText(error)}`;
      }
    }
    return serverEndText(await server.exited);
  }

  /** Null once the server is healthy again, else the reason why it is not. */
  async #restart(why: string, signal: AbortSignal): Promise<string | null> {
    const { maxRestarts, onEvent } = this.#options;
    const { logPath, health } = this.#server;
    if (this.restarts >= maxRestarts) {
      throw new PolicyError(
        `The vLLM server ${health.url} of this run failed after ${this.restarts} of ${maxRestarts} restarts: ${why}. Its log is ${logPath}.`,
      );
    }
    this.restarts++;
    onEvent?.(`restarting the policy server ${health.url} (${this.restarts} of ${maxRestarts}): ${why}`);
    try {
      await this.#server.restart(signal);
      this.#watchEnd();
      return null;
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      return error.message;
    }
  }

  /** Reports the end of the process that runs now. */
  #watchEnd(): void {
    void this.#server.exited.then((end) => this.onEnd(serverEndText(end)));
  }
}

function serverEndText(end: ServerEnd): string {
  const last = end.lastLines.at(-1);
  return `it ended with ${endText(end)}${last === undefined ? '' : `; last log line: ${last}`}`;
}
