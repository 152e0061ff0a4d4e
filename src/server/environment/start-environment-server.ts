/** Starts the environment server: every protocol of one environment on one port. */
import { ConfigError } from '../../core/errors.ts';
import { HeldBytes } from '../held-bytes.ts';
import { isLoopback, listen } from '../listen.ts';
import { CallerEpisodes } from './caller-episodes.ts';
import { environmentApp } from './environment-app.ts';
import { HttpSessions } from './openenv/http-sessions.ts';
import { RowOrder } from './openenv/row-order.ts';
import { SessionSockets, type SessionSocketsOptions } from './openenv/session-sockets.ts';
import { RolloutJobs } from './rollout-jobs.ts';
import { ServedEnvironment, type ServedEnvironmentOptions } from './served-environment.ts';
import { ServedPolicies, type ServedPoliciesOptions } from './served-policies.ts';

export interface EnvironmentServerOptions extends ServedEnvironmentOptions {
  /** Policy servers that callers name under /v1/rollouts. */
  readonly policies: ServedPoliciesOptions;
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Bearer token, required on every route except /health; null allows everyone, on loopback only. */
  readonly apiKey: string | null;
  /** Episodes that have not ended, at most. @default 1024 */
  readonly maxSessions?: number;
  /** The time for which an episode waits for its caller, in milliseconds. @default 1800000 */
  readonly idleTimeoutMs?: number;
  /** The time for which a request waits for the environment, in milliseconds. @default 50000, below the 60 s after which OpenEnv's client gives up */
  readonly stepTimeoutMs?: number;
  /** Bytes that callers make the server hold: bodies, episodes, rollouts that nobody has read, frames. @default a quarter of the heap's limit, at most 1 GiB */
  readonly maxHeldBytes?: number;
  /** Bytes of rollouts of /v1/rollouts that no client has read yet, or that are kept under a `request_id`. @default 512 MiB */
  readonly maxRolloutBytes?: number;
  /** Times of the sockets' checks. */
  readonly socketTimes?: Pick<SessionSocketsOptions, 'pingMs' | 'silentMs' | 'refusedMs' | 'messageMs'>;
  readonly version: string;
  /** Called for every failure of the server itself. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

export interface EnvironmentServer {
  /** `http://host:port` */
  readonly url: string;
  /** Accepts no new connections, ends the episodes, gives running requests up to `graceMs` to finish, then cuts them off. */
  close(options: { readonly graceMs: number }): Promise<void>;
}

/** Throws ConfigError if the address cannot be used, or is open to the network without an API key. */
export async function startEnvironmentServer(options: EnvironmentServerOptions): Promise<EnvironmentServer> {
  const { host, port, apiKey, version, maxSessions = 1024, idleTimeoutMs = 1_800_000, stepTimeoutMs = 50_000, onFailure = () => {} } = options;
  if (!isLoopback(host) && apiKey === null) {
    throw new ConfigError(`${host} is open to the network, and no API key is required. Add --api-key-var NAME, or listen on 127.0.0.1.`);
  }
  const served = new ServedEnvironment(options);
  const held = new HeldBytes(options.maxHeldBytes);
  const episodes = new CallerEpisodes({ served, maxSessions, idleTimeoutMs, stepTimeoutMs, held, onFailure });
  const policies = new ServedPolicies({ ...options.policies, isOpen: !isLoopback(host) });
  const jobs = new RolloutJobs({
    served,
    policies,
    maxSessions,
    idleTimeoutMs,
    held,
    onFailure,
    ...(options.maxRolloutBytes === undefined ? {} : { maxBytes: options.maxRolloutBytes }),
  });
  const order = new RowOrder(served);
  const sessions = new HttpSessions({ served, episodes, order, maxSessions, idleTimeoutMs });
  const sockets = new SessionSockets({
    served,
    episodes,
    order,
    apiKey,
    host,
    maxSessions,
    idleTimeoutMs,
    held,
    silentMs: idleTimeoutMs,
    onFailure,
    ...options.socketTimes,
  });
  try {
    const app = environmentApp({ served, episodes, jobs, sessions, apiKey, host, version, held, onFailure });
    const server = await listen(app, { host, port, onUpgrade: (...request) => sockets.upgrade(...request) });
    return {
      url: server.url,
      async close({ graceMs }) {
        await Promise.all([episodes.close(), jobs.close(), sockets.close({ graceMs }), server.close({ graceMs })]);
        await policies.close();
      },
    };
  } catch (error) {
    await Promise.all([episodes.close(), sockets.close({ graceMs: 0 })]);
    throw error;
  }
}
