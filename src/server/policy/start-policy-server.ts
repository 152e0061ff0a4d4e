/** One engine behind vLLM's routes, listening: what `vf-serve policy` runs, and what a run that samples in its own process reaches over loopback. */
import { basename } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import type { Engine, EngineOptions } from '../../engine/engine-types.ts';

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

/** Throws ConfigError when the address or the model cannot be used. */
export async function startPolicyServer(options: PolicyServerOptions): Promise<PolicyServer> {
  const engine = 'engine' in options ? options.engine : null;
  if (engine === null) throw new ConfigError('Expected an engine, for none can be opened yet');
  throw new ConfigError(`Expected the routes of ${options.servedName ?? basename(engine.config.path)}, which are not there yet`);
}
