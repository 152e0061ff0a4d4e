import { describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { CancelledError, GradientError, PublishError, TrainingError } from '../../../src/core/errors.ts';
import type { PublishRequest } from '../../../src/trainer/publisher/weight-publisher.ts';
import { ServedPolicy, type ServedPolicyOptions } from '../../../src/trainer/publisher/served-policy.ts';
import type { TrainingEvent } from '../../../src/trainer/loop/training-observer.ts';
import { MemoryPublisher } from '../memory-publisher.ts';
import { StillBackend } from '../still-backend.ts';

const signal = new AbortController().signal;
const TEXT = { ids: Int32Array.from({ length: 40 }, (_, i) => i), targets: Int32Array.from({ length: 30 }, (_, i) => i + 5) };

function served(changes: Partial<ServedPolicyOptions> & { readonly lostAdapters?: boolean } = {}) {
  const versions = new PolicyVersions({ version: 0, model: 'base' });
  const publisher = new MemoryPublisher(versions);
  const backend = new StillBackend();
  const reported: Omit<TrainingEvent, 'step'>[] = [];
  const policy = new ServedPolicy({
    backend,
    versions,
    publisher,
    servers: { recover: async () => ({ lostAdapters: changes.lostAdapters ?? true }) },
    adapterDirectory: (version) => `/adapters/s-v${version}`,
    tolerance: null,
    maxStaleness: 0,
    report: (event) => reported.push(event),
    ...changes,
  });
  return { policy, versions, publisher, backend, reported };
}

describe('ServedPolicy.publish', () => {
  it('saves, publishes with the probe, and retires what is too old to be sampled from', async () => {
    const { policy, publisher, versions } = served({ maxStaleness: 1 });
    expect(policy.version).toBe(0);
    expect(await policy.publish(3, TEXT, signal)).toMatchObject({ ok: true });
    expect([policy.version, versions.current().model]).toEqual([3, 'memory-v3']);
    expect(publisher.requests.map(({ version, manifest }) => [version, manifest.directory])).toEqual([[3, '/adapters/s-v3']]);
    expect(publisher.retired).toEqual([0]);
  });

  it('compares the tokens that the adapter moves most and some others, at temperature 1, with what the base says of them', async () => {
    const moved: Readonly<Record<number, number>> = { 9: -3, 20: 0, 21: -1.5, 33: -0.9 };
    const backend = new StillBackend();
    backend.judge = (target, adapter) => (adapter === 'on' ? (moved[target] ?? -1) : -1);
    const { policy, publisher } = served({ backend });
    await policy.publish(1, TEXT, signal);
    const [{ probe }] = publisher.requests as [PublishRequest];
    expect([...probe.targets]).toEqual([5, 9, 14, 20, 21, 25, 33, 34]);
    expect([...probe.logProbs]).toEqual([-1, -3, -1, 0, -1.5, -1, Math.fround(-0.9), -1]);
    expect([...probe.baseLogProbs!]).toEqual(Array.from({ length: 8 }, () => -1));
    expect(probe.ids).toEqual(TEXT.ids);
    for (const batch of backend.forwarded) expect(batch).toMatchObject({ temperature: 1, offsets: Int32Array.of(0, 40), targets: TEXT.targets });
  });

  it.each([
    ['float32', null, 1e-3],
    ['bfloat16', null, 0.05],
    ['bfloat16', 0.2, 0.2],
  ])('lets a %s backend with a tolerance of %s differ by %s', async (dtype, tolerance, expected) => {
    const { policy, publisher } = served({ backend: new StillBackend({ dtype }), tolerance });
    await policy.publish(1, TEXT, signal);
    expect(publisher.requests[0]!.probe.tolerance).toBe(expected);
  });

  it('keeps what serves, and retires nothing, when the servers refuse the new version', async () => {
    const { policy, publisher } = served();
    await policy.publish(1, TEXT, signal);
    publisher.failure = new PublishError('no room');
    const published = await policy.publish(2, TEXT, signal);
    expect(published).toEqual({ ok: false, reason: publisher.failure });
    expect([policy.version, publisher.retired]).toEqual([1, [1]]);
  });

  it('offers a version once more after a temporary failure, once the servers are back', async () => {
    const order: string[] = [];
    const { policy, publisher, reported } = served({
      servers: {
        recover: async (model) => {
          order.push(`recover ${model}`);
          publisher.failure = null;
          return { lostAdapters: true };
        },
      },
    });
    publisher.failure = new PublishError('restarted between load and probe', { retryable: true });
    publisher.before = async () => void order.push('publish');
    expect(await policy.publish(1, TEXT, signal)).toMatchObject({ ok: true });
    expect([order, policy.version]).toEqual([['publish', 'recover base', 'publish'], 1]);
    expect(reported.map(({ kind }) => kind)).toEqual(['policy_lost', 'policy_recovered']);
  });

  it('gives up a version that fails again, and at once one whose failure is permanent', async () => {
    const { policy, publisher } = served();
    publisher.failure = new PublishError('away', { retryable: true });
    expect(await policy.publish(1, TEXT, signal)).toEqual({ ok: false, reason: publisher.failure });
    publisher.failure = new PublishError('wrong rank');
    expect(await policy.publish(2, TEXT, signal)).toEqual({ ok: false, reason: publisher.failure });
    expect(publisher.requests.map(({ version }) => version)).toEqual([1, 1, 2]);
  });

  it('does not wait for rollouts of the version before when those may continue, whatever the numbers in between', async () => {
    const { policy, publisher, versions } = served({ maxStaleness: 1 });
    await policy.publish(1, TEXT, signal);
    const lease = versions.acquire();
    // Version 2 changed nothing and was never published.
    await policy.publish(3, TEXT, signal);
    lease.release();
    await policy.publish(4, TEXT, signal);
    expect(publisher.retired).toEqual([0, 1, 3]);
  });

  it('writes a version that is tried again to a folder of its own: the first may still be there', async () => {
    const { policy, publisher } = served();
    publisher.failure = new PublishError('no room');
    await policy.publish(2, TEXT, signal);
    publisher.failure = null;
    expect(await policy.publish(2, TEXT, signal)).toMatchObject({ ok: true });
    expect(publisher.requests.map(({ manifest }) => manifest.directory)).toEqual(['/adapters/s-v2', '/adapters/s-v2-2']);
  });

  it('publishes nothing for which the backend itself gives NaN', async () => {
    const backend = new StillBackend();
    backend.failure = new GradientError('the model gave NaN', { code: 'not_finite' });
    const { policy, publisher } = served({ backend });
    expect(await policy.publish(1, TEXT, signal)).toMatchObject({ ok: false, reason: { name: 'PublishError', cause: backend.failure } });
    expect(publisher.requests).toEqual([]);
    backend.failure = new GradientError('its process is gone', { code: 'lost' });
    await expect(policy.publish(1, TEXT, signal)).rejects.toBe(backend.failure);
  });
});

describe('ServedPolicy.recover', () => {
  it('publishes the serving version again, under a new name, when a server lost it', async () => {
    const { policy, publisher, versions, reported } = served();
    await policy.publish(3, TEXT, signal);
    await policy.recover(signal);
    expect(versions.current()).toEqual({ version: 3, model: 'memory-v3-2' });
    expect(publisher.requests[1]).toBe(publisher.requests[0]);
    expect(reported.map(({ kind }) => kind)).toEqual(['policy_lost', 'policy_recovered']);
    expect(reported[1]!.message).toBe('The policy server answers again; version 3 serves again as memory-v3-2');
  });

  it('publishes nothing where the adapter is still there, or the base serves', async () => {
    const kept = served({ lostAdapters: false });
    await kept.policy.publish(1, TEXT, signal);
    await kept.policy.recover(signal);
    expect(kept.publisher.requests).toHaveLength(1);
    const base = served();
    await base.policy.recover(signal);
    expect([base.publisher.requests, base.reported.at(-1)!.message]).toEqual([[], 'The policy server answers again']);
  });

  it('publishes what serves, and not what was refused last', async () => {
    const { policy, publisher } = served();
    await policy.publish(1, TEXT, signal);
    publisher.failure = new PublishError('no room');
    await policy.publish(2, TEXT, signal);
    publisher.failure = null;
    await policy.recover(signal);
    expect(publisher.requests.map(({ version }) => version)).toEqual([1, 2, 1]);
  });

  it('stops the run when the version that served cannot be published again', async () => {
    const { policy, publisher } = served();
    await policy.publish(1, TEXT, signal);
    publisher.failure = new PublishError('the folder is gone');
    const recovery = policy.recover(signal);
    await expect(recovery).rejects.toThrow(TrainingError);
    await expect(recovery).rejects.toThrow(/version 1 again: the folder is gone/);
  });

  it('passes on that the servers did not come back, and lets the next one try', async () => {
    let isBack = false;
    const recover = async () => {
      if (!isBack) throw new CancelledError('stopped');
      return { lostAdapters: false };
    };
    const { policy } = served({ servers: { recover } });
    await expect(policy.recover(signal)).rejects.toThrow(CancelledError);
    isBack = true;
    await policy.recover(signal);
  });
});

describe('publish and recover at once', () => {
  it('take turns: what is recovered is what the publish before it left', async () => {
    const held = Promise.withResolvers<void>();
    let asked = '';
    const { policy, publisher } = served({
      servers: {
        recover: async (model) => {
          asked = model;
          return { lostAdapters: true };
        },
      },
    });
    publisher.before = () => held.promise;
    const publishing = policy.publish(1, TEXT, signal);
    const recovering = policy.recover(signal);
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked).toBe('');
    held.resolve();
    await Promise.all([publishing, recovering]);
    expect(asked).toBe('memory-v1');
    expect(publisher.requests.map(({ version }) => version)).toEqual([1, 1]);
  });

  it('continue after one that failed', async () => {
    const { policy, publisher } = served();
    const failing = new Error('a bug');
    publisher.before = async () => {
      throw failing;
    };
    const first = policy.publish(1, TEXT, signal);
    const second = policy.recover(signal);
    await expect(first).rejects.toBe(failing);
    await second;
    publisher.before = async () => {};
    const third = await policy.publish(1, TEXT, signal);
    expect(third.ok).toBe(true);
  });
});
