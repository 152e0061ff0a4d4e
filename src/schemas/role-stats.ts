/** The costs and times of one role's models, in the form of summaries and metadata. */
import type { XStatic } from 'typebox/schema';
import { count, countOrNull, listOf, nullable, number, object, text } from './json-schema.ts';

export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

export interface RoleStats {
  /** Names of the models that answered; several if a run was continued with another model. */
  readonly models: readonly string[];
  /** Answered calls, those from the cache included. */
  readonly calls: number;
  /** Of `calls`: answered without a request. */
  readonly cacheHits: number;
  /** Requests behind the answered calls, retries included. */
  readonly requests: number;
  /** Calls that failed after their retries, in this process. */
  readonly failures: number;
  /** Tokens of the calls that were sent. `cached` is the part of `input` that the server had in its prefix cache; null if it did not say. */
  readonly tokens: { readonly input: number; readonly output: number; readonly cached: number | null };
  /** Calls that were sent, and whose server reported no usage. Absent if zero. */
  readonly uncounted?: number;
  /** Milliseconds from the request to the reply, accurate to 1 %; null if nothing was sent. */
  readonly latencyMs: Quantiles | null;
  /** Milliseconds that calls waited for a slot before that. */
  readonly waitMs: Quantiles | null;
}

const quantiles = nullable(object({ p50: number, p90: number, p99: number }));

/** The same figures in the form of files and `--json`. */
export const RoleStatsSchema = object(
  {
    models: listOf(text),
    calls: count,
    cache_hits: count,
    requests: count,
    failures: count,
    tokens: object({ input: count, output: count, cached: countOrNull }),
    latency_ms: quantiles,
    wait_ms: quantiles,
  },
  { uncounted: count },
);
export type WireRoleStats = XStatic<typeof RoleStatsSchema>;
