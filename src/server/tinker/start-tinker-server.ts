/** Starts the Tinker API over what trains and samples, for `vf-serve tinker` and for tests. */
import { lockRun } from '../../files/run-lock.ts';
import { listen } from '../listen.ts';
import { finishReplacements, makeState } from './checkpoints.ts';
import { tinkerApp } from './tinker-app.ts';
import { TinkerService, type TinkerServiceOptions } from './tinker-service.ts';

export interface TinkerServerOptions extends Pick<
  TinkerServiceOptions,
  'compute' | 'baseNames' | 'state' | 'onFailure' | 'silentMs' | 'maxHeldBytes'
> {
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** 0 picks a free port. @default 0 */
  readonly port?: number;
  /** The value of `X-API-Key` that clients must send; null allows everyone. */
  readonly apiKey: string | null;
  /** Most models that are trained at a time. @default 32 */
  readonly maxModels?: number;
  /** @default 128 */
  readonly maxRank?: number;
  /** Adapters that samplers may have loaded at a time. @default 16 */
  readonly maxLoaded?: number;
  /** Samples that may wait or run at a time. @default 16,384 */
  readonly maxPending?: number;
  /** @default 64 MiB */
  readonly maxBodyBytes?: number;
}

export interface TinkerServer {
  /** `http://host:port`, which clients take as TINKER_BASE_URL. */
  readonly url: string;
  /** Accepts no new connections, gives running requests up to `graceMs` (default 1000) to finish, and closes what computes. */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

const DEFAULT_MAX_PENDING = 16_384;
const GRACE_MS = 1000;

/** Throws ConfigError if the address cannot be used, or if another server has the state folder. */
export async function startTinkerServer(options: TinkerServerOptions): Promise<TinkerServer> {
  const { compute, state, host = '127.0.0.1', port = 0, maxModels = 32, maxRank = 128, maxLoaded = 16, maxPending = DEFAULT_MAX_PENDING } = options;
  await makeState(state);
  const lock = await lockRun(state);
  try {
    await finishReplacements(state);
    const service = new TinkerService({ ...options, maxModels, maxRank, maxLoaded, maxPending });
    const server = await listen(tinkerApp(service, { ...options, host }), { host, port });
    return {
      url: server.url,
      async close({ graceMs = GRACE_MS } = {}) {
        await server.close({ graceMs });
        await service.close();
        await compute.close();
        await lock[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    throw error;
  }
}
