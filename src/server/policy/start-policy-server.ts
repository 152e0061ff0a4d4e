/** One engine behind vLLM's routes, listening: what `vf-serve policy` runs, and what a run that samples in its own process reaches over loopback. */
import { basename } from 'node:path';
import { EmbeddedEngine } from '../../engine/embedded-engine.ts';
import type { Engine, EngineOptions } from '../../engine/engine-types.ts';
import { isLoopback, listen } from '../listen.ts';
import { DEFAULT_LIMITS, policyApp } from './policy-app.ts';
import { PLAIN_SAMPLING, readSamplingDefaults } from './sampling-defaults.ts';
import type { PolicyLimits } from './served-engine.ts';

export interface PolicyServerSettings {
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** 0 takes any free one. @default 0 */
  readonly port?: number;
  /** Asked for as a bearer token on every route but /health, /ping, /version and /metrics; null lets everyone in. */
  readonly apiKey: string | null;
  /** What clients call the base model. @default the last part of the model's path */
  readonly servedName?: string;
  /** Of log-probs that requests ask for: the model's own, or those of the distribution that was drawn from. @default 'raw' */
  readonly logProbsMode?: 'raw' | 'processed';
  /** What applies where a request leaves sampling fields out: plain sampling, or the model's generation_config.json (vLLM's names). @default 'vllm', plain */
  readonly generationConfig?: 'vllm' | 'auto';
  /** Requests may load adapters from under these directories alone, links followed; null: from anywhere on this machine, which only a loopback host allows. @default null */
  readonly allowAdaptersUnder?: readonly string[] | null;
  /** Largest rank of an adapter. @default 512 */
  readonly maxLoraRank?: number;
  /** Adapters loaded at a time. @default 64 */
  readonly maxAdapters?: number;
  /** Told by /version and in every answer. @default 'embedded' */
  readonly version?: string;
  /** Hears of every failure that is the server's own. @default nobody */
  readonly onFailure?: (error: unknown) => void;
}

/** An engine that is open, and stays so when the server closes, or what to open one with. */
export type PolicyServerOptions = PolicyServerSettings & ({ readonly engine: Engine } | { readonly open: EngineOptions });

export interface PolicyServer {
  /** `http://host:port`; clients add `/v1` or not, as they like. */
  readonly url: string;
  readonly servedName: string;
  readonly engine: Engine;
  /** Takes no new connection, lets requests under way finish for at most `graceMs` (default 1000), then cuts them. Closes the engine if it was opened here. */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** For requests whose clients belong to the same process, and are done. */
const GRACE_MS = 1000;

/** Throws ConfigError when the address cannot be used, EngineInputError or MemoryLimitError when the model cannot. */
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
  // What the engine can never take at once is refused for good, not told to come back.
  return { ...DEFAULT_LIMITS, maxChoices: Math.min(DEFAULT_LIMITS.maxChoices, maxPending), maxLoraRank, maxAdapters };
}
