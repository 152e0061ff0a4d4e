/**
 * A vLLM server as a child process: on loopback, with an API key and the flags that the run needs. Port and key stay the same over restarts, so that
 * clients need no update. A restart loses loaded adapters.
 */
import { type AddressInfo, createServer } from 'node:net';
import { availableParallelism } from 'node:os';
import { CancelledError, ConfigError, PolicyError } from '../core/errors.ts';
import { probePython } from './probe-python.ts';
import { endText, type GroupEnd, ProcessGroup } from '../files/process-group.ts';
import { ServerHealth } from './server-health.ts';
import { ServerLog } from './server-log.ts';
import { vllmCommand, type VllmCommand, type VllmNeeds } from './vllm-flags.ts';
import { statIfThere } from '../files/regular-file.ts';

export interface VllmLaunchOptions extends Omit<VllmNeeds, 'port'> {
  /** A Python with vLLM: a path or a command. */
  readonly python: string;
  /** The environment that the server inherits; a command passes its own. */
  readonly baseEnv: Readonly<Record<string, string | undefined>>;
  /** Every start appends to this file. */
  readonly logPath: string;
  /** Limit for one start until the server is healthy; a large model takes minutes to load. */
  readonly readyTimeoutMs: number;
  /** A random key; the caller creates it and never writes it anywhere. */
  readonly apiKey: string;
  /** Ports that other servers of this process have; the server's own is added. @default none */
  readonly takenPorts?: Set<number>;
  /** Called every few seconds with a line about the progress of the start. */
  readonly onProgress?: (text: string) => void;
  /** Aborts the start. To end a running server, call `stop`. */
  readonly signal: AbortSignal;
}

/** The end of a server, and its last log lines. */
export interface ServerEnd extends GroupEnd {
  readonly lastLines: readonly string[];
}

/** Time between SIGTERM and SIGKILL, in which vLLM finishes running requests. */
const GRACE_MS = 10_000;
const PROGRESS_MS = 5000;
/** Attempts with a free port; another process may take the port before the server does. */
const PORT_ATTEMPTS = 3;
const LINES_SHOWN = 12;
const LINES_SEARCHED = 200;
const MOST_QUOTED = 600;

export class VllmProcess implements AsyncDisposable {
  readonly apiKey: string;
  /** Ends with `/v1`. Restarts do not change it. */
  readonly baseUrl: string;
  readonly health: ServerHealth;
  readonly #options: VllmLaunchOptions;
  readonly #command: VllmCommand;
  readonly #log: ServerLog;
  #group: ProcessGroup | null = null;
  #exited: Promise<ServerEnd> | null = null;
  #starts = 0;
  #stopping: Promise<void> | null = null;

  private constructor(options: VllmLaunchOptions, command: VllmCommand, port: number) {
    this.#options = options;
    this.#command = command;
    this.apiKey = options.apiKey;
    this.baseUrl = `http://127.0.0.1:${port}/v1`;
    this.health = new ServerHealth({ baseUrl: this.baseUrl, apiKey: options.apiKey });
    this.#log = new ServerLog(options.logPath, [options.apiKey]);
  }

  /**
   * Resolves when the server is healthy. Throws ConfigError for a Python without vLLM, an invalid rank or flag, or a log that cannot be written;
   * PolicyError, quoting the log, if the server ends before it is healthy or takes too long; CancelledError. Then nothing is left running.
   */
  static async start(options: VllmLaunchOptions): Promise<VllmProcess> {
    const { python, baseEnv, env, modelPath, takenPorts = new Set<number>(), signal } = options;
    if (!/^[\x21-\x7e]{16,}$/.test(options.apiKey)) throw new ConfigError('The API key must have at least 16 visible ASCII characters.');
    const { isCpuBuild } = await probePython(python, { env: { ...baseEnv, ...env }, signal });
    const isLocalModel = statIfThere(modelPath)?.isDirectory() === true;
    const host = { isCpuBuild, isLocalModel, cores: availableParallelism(), baseEnv };
    for (let attempt = 1; ; attempt++) {
      const port = await freePort(takenPorts);
      const server = new VllmProcess(options, vllmCommand({ ...options, port }, host), port);
      try {
        await server.#launch(signal);
        return server;
      } catch (error) {
        const portWasTaken = server.#log.tail(LINES_SHOWN).some((line) => /address already in use/i.test(line));
        await server.stop();
        if (!portWasTaken || attempt === PORT_ATTEMPTS || !(error instanceof PolicyError)) throw error;
      }
    }
  }

  /** Process id of the server, which leads its own process group. A restart changes it. */
  get pid(): number {
    return this.#running().pid;
  }

  get isAlive(): boolean {
    return this.#group !== null && !this.#group.hasEnded;
  }

  /** Resolves when the current server ends for any reason. Never rejects. */
  get exited(): Promise<ServerEnd> {
    this.#running();
    return this.#exited!;
  }

  /** Number of times that the server was started. */
  get starts(): number {
    return this.#starts;
  }

  get logPath(): string {
    return this.#log.path;
  }

  get logBytes(): number {
    return this.#log.bytes;
  }

  /** Stops the rest of the server and starts it again on the same port. Throws like `start`; then nothing is left running, and it may be called again. */
  async restart(signal: AbortSignal): Promise<void> {
    if (this.#stopping !== null) throw new CancelledError('The server was stopped by its owner');
    await this.#group?.stop(GRACE_MS);
    await this.#launch(signal);
  }

  /** Sends SIGTERM, then SIGKILL, to the whole group. Resolves when no process of it is left. Safe to call twice. */
  stop({ graceMs = GRACE_MS }: { readonly graceMs?: number } = {}): Promise<void> {
    return (this.#stopping ??= this.#end(graceMs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #end(graceMs: number): Promise<void> {
    await this.#group?.stop(graceMs);
    await this.health.close();
    this.#log.close();
  }

  async #launch(signal: AbortSignal): Promise<void> {
    const { python } = this.#options;
    if (signal.aborted) throw new CancelledError('Stopped before vLLM was started', { cause: signal.reason });
    this.#starts++;
    this.#log.begin(`start ${this.#starts} at ${new Date().toISOString()}: ${[python, ...this.#command.args].join(' ')}`);
    const group = await ProcessGroup.start({
      command: python,
      args: this.#command.args,
      env: this.#command.env,
      output: this.#log.descriptor,
    });
    this.#group = group;
    this.#exited = group.ended.then((end) => ({ ...end, lastLines: this.#stopping !== null ? [] : this.#log.tail(LINES_SHOWN) }));
    try {
      await this.#healthy(group, signal);
    } catch (error) {
      // It has no requests yet, so it needs no time to finish.
      await group.stop(0);
      throw error;
    }
  }

  async #healthy(group: ProcessGroup, signal: AbortSignal): Promise<void> {
    const { readyTimeoutMs, onProgress, servedName } = this.#options;
    const startedMs = performance.now();
    const report = () => {
      const seconds = Math.round((performance.now() - startedMs) / 1000);
      onProgress?.(`vLLM is starting: ${seconds} s, log ${this.#log.path} (${Math.ceil(this.#log.bytes / 1024)} KiB)`);
    };
    report();
    const ticks = setInterval(report, PROGRESS_MS);
    const died = new AbortController();
    const ended = group.ended.then((end) => {
      died.abort();
      return end;
    });
    try {
      const options = { signal: AbortSignal.any([signal, died.signal]), deadlineMs: readyTimeoutMs, maxDelayMs: 500 };
      await this.health.wait(options);
      // Another server may have taken the port and be healthy.
      const names = await this.health.models(options);
      if (!names.includes(servedName)) throw new PolicyError(`another server answers on its port, serving ${names.join(', ')}`);
    } catch (error) {
      if (signal.aborted) throw new CancelledError('Stopped before vLLM was ready', { cause: error });
      if (group.hasEnded) throw this.#startError(`it ended with ${endText(await ended)}`, error);
      throw this.#startError(error instanceof PolicyError ? error.message : String(error), error);
    } finally {
      clearInterval(ticks);
    }
  }

  #startError(why: string, cause: unknown): PolicyError {
    const seconds = Math.round(this.#options.readyTimeoutMs / 1000);
    const said = tellingLine(this.#log.tail(LINES_SEARCHED));
    const quoted = said === null ? 'its log is empty' : `its log says: ${said}`;
    return new PolicyError(`vLLM was not ready within ${seconds} s: ${why}; ${quoted} (log: ${this.#log.path})`, { cause });
  }

  #running(): ProcessGroup {
    if (this.#group === null) throw new PolicyError('The server was not started.');
    return this.#group;
  }
}

/**
 * Finds the error that ended a server among vLLM's log lines: the last line that names an error, with the indented lines below it. It ignores the API
 * server's line about the engine's failure.
 */
function tellingLine(lines: readonly string[]): string | null {
  const at = lines.findLastIndex((line) => /(Error|Exception|error): \S/.test(line) && !/Engine core initialization failed/.test(line));
  if (at === -1) return lines.at(-1)?.trim() ?? null;
  const below = lines.slice(at + 1).findIndex((line) => !/^\s/.test(line));
  const error = lines.slice(at, below === -1 ? undefined : at + 1 + below);
  return error
    .map((line) => line.trim())
    .join(' ')
    .slice(0, MOST_QUOTED);
}

/** Two servers that start at once must not get the same port: with the same key, one would pass for the other. */
async function freePort(taken: Set<number>): Promise<number> {
  for (;;) {
    const port = await anyFreePort();
    if (taken.has(port)) continue;
    taken.add(port);
    return port;
  }
}

async function anyFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
