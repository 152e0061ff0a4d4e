/** Starts an engine behind vLLM's routes, for `vf-serve policy` and for runs that sample in their own process over loopback. */
import { basename } from 'node:path';
import { EmbeddedEngine } from '../../engine/embedded-engine.ts';
import type { EngineOptions, TokenEngine } from '../../engine/engine-types.ts';
import { isLoopback, listen } from '../listen.ts';
import type { AdapterNotice } from './adapter-routes.ts';
import { DEFAULT_LIMITS, policyApp } from './policy-app.ts';
import { PLAIN_SAMPLING, readSamplingDefaults } from './sampling-defaults.ts';
import type { PolicyLimits } from './served-engine.ts';

export interface PolicyServerSettings {
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** 0 picks a free port. @default 0 */
  readonly port?: number;
  /** Bearer token, required on every route except /health, /ping, /version and /metrics; null allows everyone. */
  readonly apiKey: string | null;
  /** Name of the base model for clients. @default the last part of the model's path */
  readonly servedName?: string;
  /** The log-probs to return: the model's own, or those of the filtered distribution that tokens are drawn from. @default 'raw' */
  readonly logProbsMode?: 'raw' | 'processed';
  /** Defaults for missing sampling fields: plain sampling (`vllm`), or the model's generation_config.json (`auto`); the names are vLLM's. @default 'vllm' */
  readonly generationConfig?: 'vllm' | 'auto';
  /** Requests may load adapters only from under these directories, after resolving links. Null allows any directory on a loopback host, and none on others. @default null */
  readonly allowAdaptersUnder?: readonly string[] | null;
  /** Largest rank of an adapter. @default 512 */
  readonly maxLoraRank?: number;
  /** Maximum of loaded adapters. @default 64 */
  readonly maxAdapters?: number;
  /** Called with the directory of every adapter that a request has loaded; what it returns is added to the answer. @default null */
  readonly adapterNotice?: AdapterNotice;
  /** Reported by /version and in every answer. @default 'embedded' */
  readonly version?: string;
  /** Called for every failure of the server itself. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

/** Either an open engine, which stays open when the server closes, or options to open one. */
export type PolicyServerOptions = PolicyServerSettings & ({ readonly engine: TokenEngine } | { readonly open: EngineOptions });

export interface PolicyServer {
  /** `http://host:port`; clients may add `/v1`. */
  readonly url: string;
  readonly servedName: string;
  readonly engine: TokenEngine;
  /** Accepts no new connections, gives running requests up to `graceMs` (default 1000) to finish, then cuts them off. Closes the engine if it was opened here. */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** Short, because the clients belong to the same process and have finished. */
const GRACE_MS = 1000;

/**
 * Throws ConfigError if the address cannot be used, EngineInputError or MemoryLimitError if the model cannot.
 *
 * @example
 * const server = await startPolicyServer({ apiKey: null, open: { modelPath: 'models/nano-base', signal } });
 */
export async function startPolicyServer(options: PolicyServerOptions): Promise<PolicyServer> {
  const { host = '127.0.0.1', port = 0, apiKey, logProbsMode = 'raw', version, onFailure } = options;
  const engine = 'engine' in options ? options.engine : await EmbeddedEngine.open(options.open);
  try {
    const servedName = options.servedName ?? basename(engine.config.path);
    const app = policyApp({
      engine,
      servedName,
      apiKey,
      host,
      logProbsMode,
      samplingDefaults: options.generationConfig === 'auto' ? await readSamplingDefaults(engine.config.path) : PLAIN_SAMPLING,
      adapterNotice: options.adapterNotice,
      adapterPlaces: options.allowAdaptersUnder ?? (isLoopback(host) ? 'any' : 'none'),
      limits: limitsOf(options),
      ...(version === undefined ? {} : { version }),
      ...(onFailure === undefined ? {} : { onFailure }),
    });
    const server = await listen(app, { host, port });
    return {
      url: server.url,
      servedName,
      engine,
      async close({ graceMs = GRACE_MS } = {}) {
        await server.close({ graceMs });
        if (!('engine' in options)) await engine.close();
      },
    };
  } catch (error) {
    if (!('engine' in options)) await engine.close();
    throw error;
  }
}

function limitsOf(options: PolicyServerOptions): PolicyLimits {
  const { maxLoraRank = DEFAULT_LIMITS.maxLoraRank, maxAdapters = DEFAULT_LIMITS.maxAdapters } = options;
  const { maxPending = Infinity } = 'open' in options ? options.open : {};
  // A request with more choices than the engine can ever accept gets a 400 instead of a 503.
  return { ...DEFAULT_LIMITS, maxChoices: Math.min(DEFAULT_LIMITS.maxChoices, maxPending), maxLoraRank, maxAdapters };
}
