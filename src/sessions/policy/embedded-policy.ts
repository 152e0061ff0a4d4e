/**
 * An in-process policy: the embedded engine behind vLLM's routes on loopback, with a random key, so that the same clients and publisher reach it as in
 * production. An engine that loses a thread is reopened behind the same URL, up to a maximum.
 */
import { randomBytes } from 'node:crypto';
import { CancelledError, ConfigError, PolicyError, thrownText } from '../../core/errors.ts';
import type { EngineOptions, TokenEngine } from '../../engine/engine-types.ts';
import type { PolicyServer } from '../../server/policy/start-policy-server.ts';
import { openEngine } from '../engine/open-engine.ts';

export interface EmbeddedPolicyOptions {
  readonly engine: Omit<EngineOptions, 'signal'>;
  /** Clients' name for the base. */
  readonly servedName: string;
  readonly logProbsMode: 'raw' | 'processed';
  /** The greatest number of restarts over the life of this object. @default 0 */
  readonly maxRestarts?: number;
  /** Called with a message at every restart and every internal failure of the server. */
  readonly onEvent?: (text: string) => void;
  /** Cancels the start, not the running policy. */
  readonly signal: AbortSignal;
}

interface Running {
  readonly engine: TokenEngine;
  readonly server: PolicyServer;
  /** The reason why the engine became unusable; null while it works. */
  loss: Error | null;
}

const HOST = '127.0.0.1';

export class EmbeddedPolicy implements AsyncDisposable {
  readonly apiKey: string;
  /** Ends with `/v1`. Does not change at a restart. */
  readonly baseUrl: string;
  readonly servedName: string;
  readonly #options: EmbeddedPolicyOptions;
  #running: Running;
  #restarts = 0;
  /** Serialises callers, so that several callers that find the engine lost share one restart. */
  #turn: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;

  private constructor(options: EmbeddedPolicyOptions, running: Running, apiKey: string) {
    this.#options = options;
    this.#running = running;
    this.apiKey = apiKey;
    this.baseUrl = `${running.server.url}/v1`;
    this.servedName = options.servedName;
  }

  /** Throws ConfigError for a model that the engine does not support, and CancelledError. */
  static async open(options: EmbeddedPolicyOptions): Promise<EmbeddedPolicy> {
    const apiKey = randomBytes(24).toString('base64url');
    return new EmbeddedPolicy(options, await start(options, { apiKey, port: 0, signal: options.signal }), apiKey);
  }

  /** Describes the engine that serves now. */
  get description(): string {
    return this.#running.engine.description;
  }

  /** Number of restarts so far. */
  get restarts(): number {
    return this.#restarts;
  }

  /** The engine behind the server. A lost engine is reopened first, without its adapters. Throws PolicyError after too many restarts. */
  engine(signal: AbortSignal): Promise<TokenEngine> {
    const turn = this.#turn.then(async () => {
      if (this.#closing !== null) throw new CancelledError('The embedded policy has been closed');
      const { loss } = this.#running;
      if (loss !== null) await this.#restart(loss, signal);
      return this.#running.engine;
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** With `revive`, implements the trainer's PolicyServers. */
  get replicas(): readonly string[] {
    return [this.baseUrl.replace(/\/v1$/, '')];
  }

  async revive(_replica: string, signal: AbortSignal): Promise<void> {
    await this.engine(signal);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#closing ??= this.#turn.then(() => stop(this.#running)));
  }

  async #restart(loss: Error, signal: AbortSignal): Promise<void> {
    const { maxRestarts = 0, onEvent } = this.#options;
    const port = Number(new URL(this.baseUrl).port);
    if (this.#restarts >= maxRestarts) {
      throw new PolicyError(`The embedded engine was lost after ${this.#restarts} of ${maxRestarts} restarts: ${thrownText(loss)}`, { cause: loss });
    }
    this.#restarts++;
    onEvent?.(`restarting the embedded engine (${this.#restarts} of ${maxRestarts}): ${thrownText(loss)}`);
    await stop(this.#running);
    try {
      this.#running = await start(this.#options, { apiKey: this.apiKey, port, signal });
    } catch (cause) {
      if (cause instanceof CancelledError) throw cause;
      throw new PolicyError(`Cannot restart the embedded engine: ${thrownText(cause)}`, { cause });
    }
  }
}

async function start(
  { engine: options, servedName, logProbsMode, onEvent }: EmbeddedPolicyOptions,
  { apiKey, port, signal }: { readonly apiKey: string; readonly port: number; readonly signal: AbortSignal },
): Promise<Running> {
  const engine = await openEngine({ ...options, signal }, 'policy.embedded.cache_tokens');
  try {
    const { startPolicyServer } = await import('../../server/policy/start-policy-server.ts');
    const onFailure = (error: unknown) => onEvent?.(`the embedded server failed: ${thrownText(error)}`);
    const server = await startPolicyServer({ engine, host: HOST, port, apiKey, servedName, logProbsMode, onFailure });
    const running: Running = { engine, server, loss: null };
    void engine.lost.then((reason) => (running.loss = reason));
    return running;
  } catch (error) {
    await engine.close();
    throw error;
  }
}

async function stop({ server, engine }: Running): Promise<void> {
  await server.close({ graceMs: 0 });
  await engine.close();
}

/** The log-probs that a trainer can reproduce: at temperatures other than 1, those of the sampling distribution. */
export function logProbsModeFor(temperature: number): 'raw' | 'processed' {
  return temperature === 1 ? 'raw' : 'processed';
}

/** Throws ConfigError if the directory is not a PEFT adapter of this base. */
export async function loadNamedAdapter(
  policy: EmbeddedPolicy,
  adapter: { readonly name: string; readonly directory: string },
  signal: AbortSignal,
): Promise<void> {
  const engine = await policy.engine(signal);
  try {
    await engine.loadAdapter({ ...adapter, signal });
  } catch (error) {
    if (error instanceof CancelledError) throw error;
    throw new ConfigError(`${adapter.directory} is not a PEFT adapter of ${policy.servedName}: ${thrownText(error)}`, { cause: error });
  }
}
