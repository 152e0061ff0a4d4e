/** What the models beside the policy cost and how long they took, a line for each role: values in, text out. */
import type { RoleStats } from '../../schemas/role-stats.ts';
import { countText, durationText, plural } from '../number-text.ts';

/** `judge (gpt-4.1-mini): 100 calls, 12 from the cache; ...`. Names are shown as they are: the caller escapes. */
export function roleStatsText(role: string, { models, calls, cacheHits, requests, failures, tokens, latencyMs, waitMs }: RoleStats): string {
  const counts = [
    plural(calls, 'call'),
    ...(cacheHits === 0 ? [] : [`${countText(cacheHits)} from the cache`]),
    ...(requests > calls - cacheHits ? [`${countText(requests - calls + cacheHits)} sent again`] : []),
    ...(failures === 0 ? [] : [`${countText(failures)} failed`]),
  ];
  const parts = [
    counts.join(', '),
    ...(tokens.input + tokens.output === 0 ? [] : [`${countText(tokens.input)} tokens read, ${countText(tokens.output)} written`]),
    ...(latencyMs === null ? [] : [`a reply in ${msText(latencyMs.p50)} (p50), ${msText(latencyMs.p90)} (p90), ${msText(latencyMs.p99)} (p99)`]),
    // A wait that nobody notices is not worth a word.
    ...(waitMs === null || waitMs.p99 < 50 ? [] : [`waited for a slot up to ${msText(waitMs.p99)} (p99)`]),
  ];
  return `${role}${models.length === 0 ? '' : ` (${models.join(', ')})`}: ${parts.join('; ')}`;
}

function msText(ms: number): string {
  return ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : durationText(ms / 1000);
}
