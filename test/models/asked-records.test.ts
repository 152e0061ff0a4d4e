import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AskedRecord } from '../../src/core/model.ts';
import { askedFromLine, askedLine, AskedTally, roleStatsToWire } from '../../src/models/asked-records.ts';
import { DurationHistogram } from '../../src/models/duration-histogram.ts';
import { AskedLineSchema } from '../../src/schemas/asked-line.ts';
import { parseWire } from '../../src/schemas/results.ts';

const record = (more: Partial<AskedRecord> = {}): AskedRecord => ({
  role: 'judge',
  model: 'm',
  version: null,
  usage: { promptTokens: 5, completionTokens: 2, cachedTokens: 1 },
  finish: 'stop',
  ms: 12.5,
  waitMs: 0.25,
  attempts: 1,
  messages: [
    { role: 'system', content: 's' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 't\u2028' },
        { type: 'image', image: { sha256: 'ab', mediaType: 'image/png', width: 1, height: 2 } },
      ],
    },
    { role: 'assistant', content: '', toolCalls: [{ id: '1', name: 'f', arguments: '{' }] },
    { role: 'tool', content: 'x', toolCallId: '1' },
  ],
  text: 'yes',
  ...more,
});

describe('askedLine', () => {
  test('is a record that reads back as it was', () => {
    const asked = [record(), record({ role: 'critic', version: 4, attempts: 0, finish: 'length' })];
    const parsed = parseWire(AskedLineSchema, JSON.stringify(askedLine('7/0', asked)));
    if ('problem' in parsed) throw new Error(parsed.problem);
    expect(parsed.value).toMatchObject({ schema_version: 1, rollout_id: '7/0' });
    expect(askedFromLine(parsed.value)).toEqual(asked);
    expect(Object.keys(parsed.value.asked[0]!)).toEqual([
      'role',
      'model',
      'version',
      'usage',
      'finish',
      'ms',
      'wait_ms',
      'attempts',
      'messages',
      'text',
    ]);
  });

  test('a rollout that asked no model has none', () => {
    expect(askedLine('7/0', [])).toBeNull();
  });
});

describe('AskedTally', () => {
  test('adds up by role; a cache costs no tokens and no time; failures are those of this process', () => {
    const tally = new AskedTally();
    tally.add([record(), record({ attempts: 3, ms: 100, waitMs: 40 }), record({ attempts: 0, ms: 9999 })]);
    tally.add([record({ role: 'critic', usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null } })]);
    const stats = tally.stats(new Map([['judge', { failures: 2 }]]));
    expect(roleStatsToWire(stats)).toEqual({
      judge: {
        models: ['m'],
        calls: 3,
        cache_hits: 1,
        requests: 4,
        failures: 2,
        tokens: { input: 10, output: 4, cached: 2 },
        latency_ms: { p50: expect.closeTo(12.5, 0), p90: expect.closeTo(100, -1), p99: expect.closeTo(100, -1) },
        wait_ms: { p50: expect.closeTo(0.25, 2), p90: expect.closeTo(40, 0), p99: expect.closeTo(40, 0) },
      },
      critic: expect.objectContaining({ calls: 1, failures: 0, tokens: { input: 1, output: 1, cached: null } }),
    });
  });

  test('a role that failed every time is in the figures too', () => {
    expect(
      new AskedTally().stats(
        new Map([
          ['judge', { failures: 2 }],
          ['critic', { failures: 0 }],
        ]),
      ),
    ).toEqual({
      judge: expect.objectContaining({ calls: 0, failures: 2, latencyMs: null }),
    });
  });
});

describe('DurationHistogram', () => {
  test('gives quantiles accurate to 1 % { of any durations }', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0.002, max: 1e7, noNaN: true }), { minLength: 1 }), (durations) => {
        const histogram = new DurationHistogram();
        for (const ms of durations) histogram.add(ms);
        const ordered = durations.toSorted((a, b) => a - b);
        for (const [name, share] of [
          ['p50', 0.5],
          ['p90', 0.9],
          ['p99', 0.99],
        ] as const) {
          const exact = ordered[Math.ceil(share * ordered.length) - 1]!;
          expect(Math.abs(histogram.quantiles()![name] / exact - 1)).toBeLessThan(0.0101);
        }
      }),
    );
  });

  test('has none while it is empty, and takes 0', () => {
    const histogram = new DurationHistogram();
    expect(histogram.quantiles()).toBeNull();
    histogram.add(0);
    expect(histogram.quantiles()).toEqual({ p50: 0, p90: 0, p99: 0 });
  });
});
