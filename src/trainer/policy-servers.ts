/** The servers behind the policy, as far as a training run has to care for them: are they there, and do they still have what was loaded. */

export interface PolicyServers {
  /**
   * Waits until every replica answers, starting again what this run started itself. `lostAdapters`: some replica no longer serves `model`, so the
   * current version must be published again, under a new name. Throws PolicyError when they do not come back in time.
   */
  recover(model: string, signal: AbortSignal): Promise<{ readonly lostAdapters: boolean }>;
}
