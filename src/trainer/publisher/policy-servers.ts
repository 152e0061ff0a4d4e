/** The policy servers as a training run sees them: whether they answer, and whether they still have the loaded adapters. */

export interface PolicyServers {
  /**
   * Waits until every replica answers, and restarts servers that this run launched. `lostAdapters`: a replica no longer serves `model`, so the
   * current version must be published again under a new name. Throws PolicyError if a replica does not come back in time.
   */
  recover(model: string, signal: AbortSignal): Promise<{ readonly lostAdapters: boolean }>;
}
