/**
 * Serves an environment over the wire of verifiers 0.4.0's `EnvServer`: requests of four frames at a ROUTER socket, answers of the kinds `delta` and
 * `reply`. Methods: `health`, `run`, `cancel`, and `tasks`, which is ours. Every request is answered; a message that cannot be answered is dropped.
 */
import { ServedEnvironment, type ServedEnvironmentOptions } from '../environment/served-environment.ts';
import { ServedPolicies, type ServedPoliciesOptions } from '../environment/served-policies.ts';
import { Answers } from './answers.ts';
import { VerifiersRuns } from './verifiers-runs.ts';
import { loadWireLibraries } from './wire-libraries.ts';
import { isOpenToNetwork, WireSocket } from './wire-socket.ts';

export interface VerifiersServerOptions extends Omit<ServedEnvironmentOptions, 'tokenizer' | 'callerModels'> {
  /** Policy servers that clients name in their requests. */
  readonly policies: ServedPoliciesOptions;
  /** `tcp://host:port`; port 0 picks a free one. */
  readonly address: string;
  /** True if other machines may reach it: the wire has no password. @default false */
  readonly allowsNetwork?: boolean;
  /** Runs that are played at once. @default 1024 */
  readonly maxSessions?: number;
  /** Runs that wait for their turn. @default 10000 */
  readonly maxWaiting?: number;
  /** Of this process, for headers that come from them. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** Called for every failure of the server itself. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

export interface VerifiersServer {
  /** `tcp://host:port` */
  readonly address: string;
  /** Cancels all runs, answers them, and closes the socket. */
  close(): Promise<void>;
}

/** Throws ConfigError if the address cannot be used, or the packages of the wire are missing. */
export async function startVerifiersServer(options: VerifiersServerOptions): Promise<VerifiersServer> {
  const { address, allowsNetwork = false, maxSessions = 1024, maxWaiting, variables, version, onFailure = () => {} } = options;
  const { zeromq, msgpack } = await loadWireLibraries();
  const served = new ServedEnvironment({ ...options, tokenizer: null, callerModels: () => null });
  const policies = new ServedPolicies({ ...options.policies, field: 'client', isOpen: isOpenToNetwork(address) });
  const runs = new VerifiersRuns({ served, policies, maxSessions, version, ...(maxWaiting === undefined ? {} : { maxWaiting }) });
  const socket = await WireSocket.bind(zeromq, {
    address,
    allowsNetwork,
    onGone: (client) => runs.cancelAllOf(Buffer.from(client).toString('hex')),
    onFailure,
  });
  const answers = new Answers({ msgpack, socket, served, policies, runs, variables, onFailure });
  const receiving = answers.receive().catch(onFailure);
  return {
    address: socket.address,
    async close() {
      runs.cancelAll();
      await answers.idle();
      await socket.close();
      await receiving;
      await policies.close();
    },
  };
}
