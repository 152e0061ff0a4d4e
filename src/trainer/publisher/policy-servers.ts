/** The policy servers as a training run sees them: which replicas there are, and whether one answers. */

export interface PolicyServers {
  /** Names of the replicas: their URLs without `/v1` and without secrets. */
  readonly replicas: readonly string[];
  /**
   * Waits until the replica answers; a server that this run launched is restarted if it is dead. Says nothing about its adapters. Throws PolicyError if
   * the replica does not come back in time, or at once if waiting cannot help. May be called again.
   */
  revive(replica: string, signal: AbortSignal): Promise<void>;
  /**
   * Restarts a server that this run launched, although it answers: it computes nothing. `why`: what it did not do, without a full stop. Throws PolicyError
   * after too many restarts. @default none was launched
   */
  renew?(replica: string, why: string, signal: AbortSignal): Promise<void>;
  /** Calls `onLost` when a server that this run launched ends, until disposed. @default none was launched */
  watch?(onLost: (replica: string, why: string) => void): Disposable;
}
