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

  it('knows every version by the names under which it was published', () => {
    const versions = new PolicyVersions({ version: 0, model: 'base' });
    versions.advance({ version: 0, model: 'run-v0' });
    versions.advance({ version: 3, model: 'run-v3' });
    expect(['base', 'run-v0', 'run-v3', 'run-v2'].map((name) => versions.versionNamed(name))).toEqual([0, 0, 3, null]);
  });

  it('lets a generation in flight wait for new weights and then pins them', async () => {
    const versions = new PolicyVersions({ version: 0, model: 'base' }, { isInFlight: true });
    const pause = versions.pause();
    const waiting = versions.acquireInFlight(signal);
    versions.advance({ version: 1, model: 'run-v1' });
    expect(versions.isHeld(1)).toBe(false);
    pause[Symbol.dispose]();
    const held = await waiting;
    expect([held.ref.version, versions.isHeld(1)]).toEqual([1, true]);
    held.release();
    expect(versions.isHeld(1)).toBe(false);
  });

  it('stops waiting for new weights when the signal aborts', async () => {
    const versions = new PolicyVersions({ version: 0, model: 'base' }, { isInFlight: true });
    versions.pause();
    const stop = new AbortController();
    const waiting = versions.acquireInFlight(stop.signal);
    stop.abort();
    await expect(waiting).rejects.toThrow(CancelledError);
  });
});
