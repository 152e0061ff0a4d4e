import type { AskedRecord } from '../core/model.ts';
import { callTokens } from '../core/price.ts';
import type { RoleStats } from '../schemas/role-stats.ts';
import { DurationHistogram } from './duration-histogram.ts';

/** Adds up the calls of one role, live or from a run's records. Tokens and latencies leave out cached replies. */
export class RoleTally {
  readonly #models = new Set<string>();
  readonly #latency = new DurationHistogram();
  readonly #wait = new DurationHistogram();
  #calls = 0;
  #cacheHits = 0;
  #requests = 0;
  #failures = 0;
  #input = 0;
  #output = 0;
  #cached: number | null = 0;
  #uncounted = 0;

  add({ model, attempts, usage, ms, waitMs }: Pick<AskedRecord, 'model' | 'attempts' | 'usage' | 'ms' | 'waitMs'>): void {
    this.#models.add(model);
    this.#calls += 1;
    this.#requests += attempts;
    if (attempts === 0) {
      this.#cacheHits += 1;
      return;
    }
    this.#input += usage.promptTokens;
    this.#output += usage.completionTokens;
    this.#uncounted += callTokens(usage).uncounted ?? 0;
    this.#cached = this.#cached === null || usage.cachedTokens === null ? null : this.#cached + usage.cachedTokens;
    this.#latency.add(ms);
    this.#wait.add(waitMs);
  }

  addFailure(): void {
    this.#failures += 1;
  }

  get stats(): RoleStats {
    return {
      models: [...this.#models],
      calls: this.#calls,
      cacheHits: this.#cacheHits,
      requests: this.#requests,
      failures: this.#failures,
      tokens: { input: this.#input, output: this.#output, cached: this.#cached },
      ...(this.#uncounted === 0 ? {} : { uncounted: this.#uncounted }),
      latencyMs: this.#latency.quantiles(),
      waitMs: this.#wait.quantiles(),
    };
  }
}
