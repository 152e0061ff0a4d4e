/** Renders the calls, tokens and latencies of the models other than the policy, a line for each role. */
import type { RoleStats } from '../../schemas/role-stats.ts';
import { countText, durationText, plural } from '../text/number-text.ts';

/** `judge (gpt-4.1-mini): 100 calls, 12 from the cache; ...`. The caller must escape the text. */
export function roleStatsText(role: string, { models, calls, cacheHits, requests, failures, tokens, latencyMs, waitMs }: RoleStats): string {
  const counts = [
    plural(calls, 'call'),
    ...(cacheHits === 0 ? [] : [`${countText(cacheHits)} from the cache`]),
    ...(requests > calls - cacheHits ? [`${countText(requests - calls + cacheHits)} retried`] : []),
    ...(failures === 0 ? [] : [`${countText(failures)} failed`]),
  ];
  const parts = [
    counts.join(', '),
    ...(tokens.input + tokens.output === 0 ? [] : [`${countText(tokens.input)} tokens read, ${countText(tokens.output)} written`]),
    ...(latencyMs === null ? [] : [`latency ${msText(latencyMs.p50)} (p50), ${msText(latencyMs.p90)} (p90), ${msText(latencyMs.p99)} (p99)`]),
    // Leaves out negligible waits.
    ...(waitMs === null || waitMs.p99 < 50 ? [] : [`waited for a slot up to ${msText(waitMs.p99)} (p99)`]),
  ];
  return `${role}${models.length === 0 ? '' : ` (${models.join(', ')})`}: ${parts.join('; ')}`;
}

function msText(ms: number): string {
  return ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : durationText(ms / 1000);
}
