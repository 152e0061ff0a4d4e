import { describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { CancelledError } from '../../src/core/errors.ts';

const { signal } = new AbortController();

describe('PolicyVersions', () => {
  it('pins the version of a lease while newer ones are published', () => {
    const versions = new PolicyVersions({ version: 0, model: 'base' });
    const lease = versions.acquire();
    versions.advance({ version: 1, model: 'run-v1' });
    expect(lease.ref.model).toBe('base');
    expect(versions.current().model).toBe('run-v1');
    expect(versions.acquire().ref.version).toBe(1);
  });

  it('never goes back or re-uses a version', () => {
    const versions = new PolicyVersions({ version: 3, model: 'a' });
    const { model } = versions.current();
    expect(() => versions.advance({ version: 3, model })).toThrow(RangeError);
    versions.advance({ version: 3, model: 'again' });
    expect(versions.current()).toEqual({ version: 3, model: 'again' });
    expect(() => versions.advance({ version: 2, model: 'b' })).toThrow(RangeError);
  });

  it('drains when the last holder lets go, and counts a double release once', async () => {
    const versions = new PolicyVersions({ version: 0, model: 'base' });
    const [first, second] = [versions.acquire(), versions.acquire()];
    let isDrained = false;
    const drained = versions.drained(0, signal).then(() => (isDrained = true));
    first.release();
    first.release();
    await Promise.resolve();
    expect(isDrained).toBe(false);
    second.release();
    await drained;
    expect(isDrained).toBe(true);
    await versions.drained(0, signal);
  });

  it('stops waiting when asked to', async () => {
    const versions = new PolicyVersions({ version: 0, model: 'base' });
    const held = versions.acquire();
    const stop = new AbortController();
    const waiting = versions.drained(0, stop.signal);
    stop.abort();
    await expect(waiting).rejects.toThrow(CancelledError);
    held.release();
  });
});
