import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { CancelledError, GradientError, PolicyError, PublishError, TrainingError } from '../../../src/core/errors.ts';
import type { PublishRequest } from '../../../src/trainer/weight-publisher.ts';
import { ServedPolicy, type ServedPolicyOptions, VersionNames } from '../../../src/trainer/publisher/served-policy.ts';
import type { TrainingEvent } from '../../../src/trainer/training-observer.ts';
import { until } from '../../transport/loopback.ts';
import { MemoryPublisher } from '../memory-publisher.ts';
import { StillBackend } from '../still-backend.ts';

const signal = new AbortController().signal;
const TEXT = { ids: Int32Array.from({ length: 40 }, (_, i) => i), targets: Int32Array.from({ length: 30 }, (_, i) => i + 5) };

function served(changes: Partial<ServedPolicyOptions> & { readonly hasLost?: boolean } = {}) {
  const versions = new PolicyVersions({ version: 0, model: 'base' });
  const publisher = new MemoryPublisher(versions);
  publisher.hasLost = changes.hasLost ?? true;
  const backend = new StillBackend();
  const reported: Omit<TrainingEvent, 'step'>[] = [];
  const policy = new ServedPolicy({
    backend,
    versions,
    publisher,
    servers: { replicas: ['one'], revive: async () => {} },
    names: new VersionNames('s'),
    hasInitialAdapter: false,
    adaptersDirectory: '/adapters',
    tolerance: null,
    maxStaleness: 0,
    quorum: 1,
    report: (event) => reported.push(event),
    signal,
    ...changes,
  });
  return { policy, versions, publisher, backend, reported };
}

describe('ServedPolicy.publish', () => {
  it('saves, publishes with the probe, and retires what is too old to be sampled from', async () => {
    const { policy, publisher, versions } = served({ maxStaleness: 1 });
    expect(policy.version).toBe(0);
    expect(await policy.publish(3, { text: TEXT }, signal)).toMatchObject({ ok: true });
    expect([policy.version, versions.current().model]).toEqual([3, 's-v000003']);
    expect(publisher.requests.map(({ version, manifest }) => [version, manifest.directory])).toEqual([[3, '/adapters/s-v000003']]);
    expect(publisher.retired).toEqual([0]);
  });

  it('does not wait for a long rollout where versions may be two or more behind, and retires its version once it ends', async () => {
    const { policy, publisher, versions } = served({ maxStaleness: 2 });
    const long = versions.acquire();
    for (const version of [1, 2, 3, 4]) expect(await policy.publish(version, { text: TEXT }, signal)).toMatchObject({ ok: true });
    // Version 0 is in use; retiring later ones waits in line behind it.
    expect(publisher.retired).toEqual([0, 0]);
    long.release();
    await policy.settled();
    expect(publisher.retired).toEqual([0, 0, 1, 2]);
  });

  it('compares 32 tokens, those that the adapter moves most among them, at temperature 1, with what the base says of them', async () => {
    const backend = new StillBackend();
    const ids = Int32Array.from({ length: 100 }, (_, i) => i);
    const targets = Int32Array.from({ length: 90 }, (_, i) => i + 5);
    const moved = Array.from({ length: 16 }, (_, i) => 6 + 5 * i);
    backend.judge = (target, adapter) => (adapter === 'on' && moved.includes(target) ? -3 : -1);
    const { policy, publisher } = served({ backend });
    await policy.publish(1, { text: { ids, targets } }, signal);
    const [{ probe }] = publisher.requests as [PublishRequest];
    expect(probe.targets).toHaveLength(32);
    expect([...probe.targets]).toEqual(expect.arrayContaining(moved));
    expect([...probe.logProbs]).toEqual([...probe.targets].map((target) => (moved.includes(target) ? -3 : -1)));
    expect([...probe.baseLogProbs!]).toEqual(Array.from({ length: 32 }, () => -1));
    for (const batch of backend.forwarded) expect(batch).toMatchObject({ temperature: 1, offsets: Int32Array.of(0, 100), targets });
  });

  it('takes tokens before the targets where those are too few, and all there are of a short text', async () => {
    const { policy, publisher } = served();
    await policy.publish(1, { text: { ids: TEXT.ids, targets: Int32Array.of(36, 39) } }, signal);
    await policy.publish(2, { text: { ids: TEXT.ids.subarray(0, 5), targets: Int32Array.of(4) } }, signal);
    expect(publisher.requests.map(({ probe }) => [...probe.targets])).toEqual([
      [...Array.from({ length: 30 }, (_, i) => i + 6), 36, 39],
      [1, 2, 3, 4],
    ]);
  });

  it('compares a second sequence that shows images: tokens behind them, never an image’s own', async () => {
    const { policy, publisher, backend } = served();
    const image = { sha256: 'a'.repeat(64), mediaType: 'image/png', width: 64, height: 32, offset: 5, length: 8 };
    const pictured = { ids: TEXT.ids, targets: Int32Array.of(30, 35), images: [image] };
    await policy.publish(1, { text: TEXT, pictured }, signal);
    const [{ probe, pictured: shown }] = publisher.requests as [PublishRequest];
    expect(probe.images).toBeUndefined();
    expect(shown).toMatchObject({ ids: TEXT.ids, images: [image], tolerance: 1e-3 });
    expect([...shown!.targets]).toEqual([...Array.from({ length: 17 }, (_, i) => i + 13), 30, 35]);
    const { sha256, offset, length } = image;
    expect(backend.forwarded.map(({ images }) => images)).toEqual([
      undefined,
      undefined,
      ...[0, 1].map(() => [{ sequence: 0, sha256, offset, length }]),
    ]);
    await policy.publish(2, { text: TEXT }, signal);
    expect(publisher.requests[1]).not.toHaveProperty('pictured');
  });

  it.each([
    ['float32', null, 1e-3],
    ['bfloat16', null, 0.05],
    ['bfloat16', 0.2, 0.2],
  ])('lets a %s backend with a tolerance of %s differ by %s', async (dtype, tolerance, expected) => {
    const { policy, publisher } = served({ backend: new StillBackend({ dtype }), tolerance });
    await policy.publish(1, { text: TEXT }, signal);
    expect(publisher.requests[0]!.probe.tolerance).toBe(expected);
  });

  it('keeps what serves, and retires nothing, when the servers refuse the new version', async () => {
    const { policy, publisher } = served();
    await policy.publish(1, { text: TEXT }, signal);
    publisher.failure = new PublishError('no room');
    const published = await policy.publish(2, { text: TEXT }, signal);
    expect(published).toEqual({ ok: false, reason: publisher.failure });
    expect([policy.version, publisher.retired]).toEqual([1, [1]]);
  });

  it('offers a version once more after a temporary failure, once the servers are back', async () => {
    const order: string[] = [];
    const { policy, publisher, reported } = served({
      servers: {
        replicas: ['one'],
        revive: async (replica) => {
          order.push(`revive ${replica}`);
          publisher.failure = null;
        },
      },
    });
    publisher.failure = new PublishError('restarted between load and probe', { retryable: true });
    publisher.before = async () => void order.push('publish');
    expect(await policy.publish(1, { text: TEXT }, signal)).toMatchObject({ ok: true });
    expect([order, policy.version]).toEqual([['publish', 'revive one', 'publish'], 1]);
    expect(reported.map(({ kind }) => kind)).toEqual(['policy_lost', 'policy_recovered']);
  });

  it('offers it once more as soon as a quorum of others answers, where a replica would refuse it again', async () => {
    const isBack = Promise.withResolvers<void>();
    const { policy, publisher, versions } = served({
      quorum: 2,
      servers: { replicas: ['refusing', 'well', 'away'], revive: (replica) => (replica === 'away' ? isBack.promise : Promise.resolve()) },
    });
    publisher.failure = new PublishError('too few took it', { retryable: true });
    publisher.refused = ['refusing'];
    let publishes = 0;
    publisher.before = async () => void publishes++;
    const published = policy.publish(1, { text: TEXT }, signal);
    await until(() => versions.replicas.isResting('away') && !versions.replicas.isResting('well') && publishes === 1);
    // Two serve the version of before, but only one of them may take the new one.
    await sleep(20);
    expect(publishes).toBe(1);
    publisher.failure = null;
    isBack.resolve();
    expect(await published).toMatchObject({ ok: true });
    expect(publishes).toBe(2);
  });

  it('gives up a version that fails again, and at once one whose failure is permanent', async () => {
    const { policy, publisher } = served();
    publisher.failure = new PublishError('away', { retryable: true });
    expect(await policy.publish(1, { text: TEXT }, signal)).toEqual({ ok: false, reason: publisher.failure });
    publisher.failure = new PublishError('wrong rank');
    expect(await policy.publish(2, { text: TEXT }, signal)).toEqual({ ok: false, reason: publisher.failure });
    expect(publisher.requests.map(({ version }) => version)).toEqual([1, 1, 2]);
  });

  it('does not wait for rollouts of the version before when those may continue, whatever the numbers in between', async () => {
    const { policy, publisher, versions } = served({ maxStaleness: 1 });
    await policy.publish(1, { text: TEXT }, signal);
    const lease = versions.acquire();
    // Version 2 changed nothing and was never published.
    await policy.publish(3, { text: TEXT }, signal);
    lease.release();
    await policy.publish(4, { text: TEXT }, signal);
    expect(publisher.retired).toEqual([0, 1, 3]);
  });

  it('writes a version that is tried again to a folder of its own: the first may still be there', async () => {
    const { policy, publisher } = served();
    publisher.failure = new PublishError('no room');
    await policy.publish(2, { text: TEXT }, signal);
    publisher.failure = null;
    expect(await policy.publish(2, { text: TEXT }, signal)).toMatchObject({ ok: true });
    expect(publisher.requests.map(({ manifest }) => manifest.directory)).toEqual(['/adapters/s-v000002', '/adapters/s-v000002-2']);
  });

  it('publishes nothing for which the backend itself gives NaN', async () => {
    const backend = new StillBackend();
    backend.failure = new GradientError('the model gave NaN', { code: 'not_finite' });
    const { policy, publisher } = served({ backend });
    expect(await policy.publish(1, { text: TEXT }, signal)).toMatchObject({ ok: false, reason: { name: 'PublishError', cause: backend.failure } });
    expect(publisher.requests).toEqual([]);
    backend.failure = new GradientError('its process is gone', { code: 'lost' });
    await expect(policy.publish(1, { text: TEXT }, signal)).rejects.toBe(backend.failure);
  });
});

describe('ServedPolicy.recover', () => {
  it('gives the serving version again, under its name, to a server that lost it', async () => {
    const { policy, publisher, versions, reported } = served();
    await policy.publish(3, { text: TEXT }, signal);
    expect(await policy.recover(signal)).toBe(true);
    expect(versions.current()).toEqual({ version: 3, model: 's-v000003' });
    expect(publisher.caughtUp).toEqual(['one s-v000003']);
    expect(reported.map(({ kind }) => kind)).toEqual(['policy_lost', 'policy_recovered']);
    expect(reported[1]!.message).toBe('The policy server answers again; version 3 serves again as s-v000003');
  });

  it('says that nothing was lost where the adapter is still there, or the base serves', async () => {
    const kept = served({ hasLost: false });
    await kept.policy.publish(1, { text: TEXT }, signal);
    expect(await kept.policy.recover(signal)).toBe(false);
    const base = served();
    expect(await base.policy.recover(signal)).toBe(false);
    expect(base.reported.map(({ message }) => message)).toEqual(['Waiting for the policy server', 'The policy server answers again']);
  });

  it('gives what serves, and not what was refused last', async () => {
    const { policy, publisher } = served();
    await policy.publish(1, { text: TEXT }, signal);
    publisher.failure = new PublishError('no room');
    await policy.publish(2, { text: TEXT }, signal);
    await policy.recover(signal);
    expect(publisher.caughtUp).toEqual(['one s-v000001']);
  });

  it('stops the run when no server can be given the version that served', async () => {
    const { policy, publisher } = served();
    await policy.publish(1, { text: TEXT }, signal);
    publisher.catchUpFailure = new PublishError('the folder is gone');
    const recovery = policy.recover(signal);
    await expect(recovery).rejects.toThrow(TrainingError);
    await expect(recovery).rejects.toThrow(/version 1 again: the folder is gone/);
  });

  it('passes on that the servers did not come back, and lets the next one try', async () => {
    let isBack = false;
    const revive = async () => {
      if (!isBack) throw new PolicyError('not ready within 1800 s');
    };
    const { policy } = served({ servers: { replicas: ['one'], revive } });
    await expect(policy.recover(signal)).rejects.toThrow(PolicyError);
    isBack = true;
    await until(() =>
      policy.recover(signal).then(
        () => true,
        () => false,
      ),
    );
  });

  it('can be cancelled', async () => {
    const { policy } = served({ servers: { replicas: ['one'], revive: () => new Promise(() => {}) } });
    await expect(policy.recover(AbortSignal.timeout(20))).rejects.toThrow(CancelledError);
  });
});

describe('publish and recover at once', () => {
  it('take turns: a server gets what the publish before it left', async () => {
    const held = Promise.withResolvers<void>();
    const { policy, publisher } = served();
    publisher.before = () => held.promise;
    const publishing = policy.publish(1, { text: TEXT }, signal);
    await until(() => publisher.requests.length === 1);
    const recovering = policy.recover(signal);
    await new Promise((resolve) => setImmediate(resolve));
    expect(publisher.caughtUp).toEqual([]);
    held.resolve();
    await Promise.all([publishing, recovering]);
    expect(publisher.caughtUp).toEqual(['one s-v000001']);
  });

  it('continue after one that failed', async () => {
    const { policy, publisher } = served();
    const failing = new Error('a bug');
    publisher.before = async () => {
      throw failing;
    };
    const first = policy.publish(1, { text: TEXT }, signal);
    const second = policy.recover(signal);
    await expect(first).rejects.toBe(failing);
    await second;
    publisher.before = async () => {};
    const third = await policy.publish(1, { text: TEXT }, signal);
    expect(third.ok).toBe(true);
  });
});
