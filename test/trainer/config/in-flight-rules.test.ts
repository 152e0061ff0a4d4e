import { describe, expect, it } from 'vitest';
import { someConfig } from '../some-config.ts';

const IN_FLIGHT = { publish: { in_flight: true }, rollouts: { max_staleness: 1 } };

describe('publish.in_flight', () => {
  it('is off unless it is set', () => {
    expect(someConfig().publish.inFlight).toBe(false);
    expect(someConfig(IN_FLIGHT).publish.inFlight).toBe(true);
  });

  it.each([
    ['the embedded engine', { policy: { base_url: null, embedded: {} } }, /publish\.in_flight needs a vLLM/],
    ['several servers', { policy: { base_url: ['http://a:1/v1', 'http://b:1/v1'] } }, /publish\.in_flight needs a single policy server/],
    ['several servers of its own', { policy: { base_url: null, launch: { replicas: 2 } } }, /publish\.in_flight needs a single policy server/],
    [
      'a server that sleeps',
      { policy: { base_url: null, launch: { sleep: true } }, rollouts: { max_staleness: 0 } },
      /nothing is generated while vLLM sleeps/,
    ],
    ['a synchronous run', { rollouts: { max_staleness: 0 } }, /publish\.in_flight needs rollouts\.max_staleness of at least 1/],
  ])('goes not with %s', (_, change, message) => {
    expect(() => someConfig({ ...IN_FLIGHT, ...change })).toThrow(message);
  });
});
