/** Chooses the replica of a trajectory, and another one when it fails, among those that have the trajectory's version. */
import { PolicyError, thrownText } from '../core/errors.ts';
import type { PolicyReplicas } from './policy-replicas.ts';
import { isDown, isSpent, type VllmServer } from './vllm-server.ts';

export interface ReplicaChoiceOptions {
  readonly servers: readonly VllmServer[];
  readonly replicas: PolicyReplicas;
  /** The version's name at the servers. */
  readonly model: string;
}

export class ReplicaChoice {
  readonly #options: ReplicaChoiceOptions;

  constructor(options: ReplicaChoiceOptions) {
    this.#options = options;
  }

  /**
   * The living replica with the fewest trajectories. If none lives, the one that failed longest ago, because a server that was slow may answer again.
   * Throws a retryable PolicyError if no replica has the version.
   */
  first(): VllmServer {
    const { servers, replicas, model } = this.#options;
    const [living] = this.#living();
    if (living !== undefined) return living;
    const having = servers.filter(({ url }) => replicas.has(url, model));
    const awake = having.filter(({ url }) => !replicas.isResting(url));
    const [longestAgo] = (awake.length > 0 ? awake : having).toSorted((a, b) => b.failedMsAgo - a.failedMsAgo);
    if (longestAgo !== undefined) return longestAgo;
    throw new PolicyError(`No policy server has ${model} at the moment. Wait until one of them has loaded it`, { retryable: true });
  }

  /** True if another replica can take the request that failed here. */
  isBetterElsewhere(server: VllmServer, error: unknown): boolean {
    return (isDown(error) || isSpent(error)) && this.#hasOtherThan(server);
  }

  /** The replica on which to continue after `error` at `server`; null if the error would be the same elsewhere, or no other replica lives. */
  after(server: VllmServer, error: unknown, tried: ReadonlySet<VllmServer>): VllmServer | null {
    // Without another replica, the run ends with what its server said.
    if (!isDown(error) && !(isSpent(error) && this.#hasOtherThan(server))) return null;
    const { replicas, model } = this.#options;
    // A replica that was restarted serves the current version, and rightly does not know an older one.
    if (replicas.has(server.url, model)) replicas.rest(server.url, thrownText(error));
    return this.#living().find((other) => !tried.has(other)) ?? null;
  }

  /** Records that a request to the replica ended without an answer. */
  abandon({ url }: VllmServer): void {
    this.#options.replicas.abandon(url, this.#options.model);
  }

  /** True if a replica other than this one may be asked now. */
  #hasOtherThan(server: VllmServer): boolean {
    return this.#living().some((other) => other !== server);
  }

  /** Replicas that may be asked now, the one with the fewest trajectories first. */
  #living(): VllmServer[] {
    const { servers, replicas, model } = this.#options;
    return servers.filter((server) => replicas.serves(server.url, model) && !server.isResting).toSorted((a, b) => a.leases - b.leases);
  }
}
