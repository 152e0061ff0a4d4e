import { describe, expect, test } from 'vitest';
import { requestedWaitMs, retryAfterMs } from '../../src/transport/requested-wait.ts';

const now = Date.UTC(2026, 0, 1);

describe('retryAfterMs', () => {
  test.each([
    [{ 'retry-after': '2' }, 2000],
    [{ 'retry-after': '0.5' }, 500],
    [{ 'retry-after-ms': '1500', 'retry-after': '9' }, 1500],
    [{ 'retry-after': 'Thu, 01 Jan 2026 00:00:03 GMT' }, 3000],
    [{ 'retry-after': 'Wed, 31 Dec 2025 00:00:00 GMT' }, 0],
    [{ 'retry-after': '20s' }, 20_000],
    [{ 'retry-after': '1m30s' }, 90_000],
    [{ 'retry-after': String(now / 1000 + 7) }, 7000],
    [{ 'retry-after': String(now + 7000) }, 7000],
    [{ 'retry-after': '2026-01-01T00:00:12Z' }, 12_000],
    [{ 'x-retry-after': '12' }, 12_000],
    [{ 'x-ratelimit-retry-after': '12' }, 12_000],
    [{ 'retry-after': 'soon' }, null],
    [{ 'retry-after': '-5' }, null],
    [{}, null],
  ])('%j asks for %s', (headers, expected) => expect(retryAfterMs(headers, now)).toBe(expected));
});

describe('requestedWaitMs', () => {
  test.each<[Record<string, string>, number | null]>([
    [{ 'retry-after': '2', 'x-ratelimit-reset-requests': '9s' }, 2000],
    [{ 'x-ratelimit-reset-requests': '1s' }, 1000],
    [{ 'x-ratelimit-reset-tokens': '6m0s', 'x-ratelimit-remaining-tokens': '0' }, 360_000],
    [{ 'x-ratelimit-reset-tokens': '2m59.56s' }, 179_560],
    [{ 'x-ratelimit-reset-requests': '120ms' }, 120],
    [
      {
        'x-ratelimit-reset-requests': '1s',
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-tokens': '6m0s',
        'x-ratelimit-remaining-tokens': '500',
      },
      1000,
    ],
    [{ 'x-ratelimit-reset-requests': '9s', 'x-ratelimit-remaining-requests': '4' }, null],
    [{ 'x-ratelimit-reset': String(now + 5000), 'x-ratelimit-remaining': '0' }, 5000],
    [{ 'x-ratelimit-reset': String(now / 1000 + 7) }, 7000],
    [{ 'ratelimit-reset': '30' }, 30_000],
    [{ 'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:12Z', 'anthropic-ratelimit-requests-remaining': '0' }, 12_000],
    [{ ratelimit: '"api";r=0;t=57' }, 57_000],
    [{ ratelimit: '"api";r=12;t=57' }, null],
    [{ 'x-ratelimit-reset': 'Thu, 01 Jan 2026 00:00:45 GMT' }, 45_000],
    [{ ratelimit: 'limit=100, remaining=0, reset=30' }, 30_000],
    [{ ratelimit: 'limit=100, remaining=9, reset=30' }, null],
    [{ 'x-ratelimit-reset': 'tomorrow' }, null],
    [{ 'x-ratelimit-limit-requests': '60' }, null],
  ])('the headers %j ask for %s', (headers, expected) => expect(requestedWaitMs({ headers }, now)).toBe(expected));

  test.each<[string, number | null]>([
    ['Rate limit reached for gpt-4o. Please try again in 6m0s. Visit', 360_000],
    ['Please try again in 1.5s.', 1500],
    ['Please try again in 340ms.', 340],
    ['Please retry after 26 seconds.', 26_000],
    ['Please retry in 34.07s.', 34_070],
    ['Try again in 2 minutes', 120_000],
    ['"retryDelay": "34s"', 34_000],
    ['{"retry_after": 12}', 12_000],
    ['{"retryAfter":"12"}', 12_000],
    ['{"retry_after_ms": 1200}', 1200],
    ['{"error":{"metadata":{"retry_after_seconds":12}}}', 12_000],
    [`{"error":{"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"${now + 33_000}"}}}}`, 33_000],
    [String.raw`{"error":{"metadata":{"raw":"{\"error\":{\"details\":[{\"retryDelay\":\"34s\"}]}}"}}}`, 34_000],
    ['Please wait before trying again: your quota resets in 12s', 12_000],
    ['Too many requests. Wait for 2 minutes.', 120_000],
    ['Please try again in a while', null],
    ['Rate limit exceeded: free-models-per-min', null],
  ])('the text %j asks for %s', (text, expected) => expect(requestedWaitMs({ body: Buffer.from(text) }, now)).toBe(expected));
});
