/** One of two replicas dies: before a publish, while it loads, while it is probed, while it samples; and comes back with and without its adapters. */
import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { PublishError } from '../../../src/core/errors.ts';
import type { MortalReplica } from '../../loopback/mortal-replica.ts';
import { until } from '../../transport/loopback.ts';
import { modelsAsked, TEXT, twoReplicas, type TwoReplicas } from './two-replicas.ts';

const messages = ({ reported }: TwoReplicas, kind: string) => reported.filter((event) => event.kind === kind).map(({ message }) => message);
const isProbe = (body: string) => body.includes('allowed_token_ids');

/** What kills the replica, and when. */
const phases: Record<string, (mortal: MortalReplica) => void> = {
  'before the publish': (mortal) => mortal.kill(),
  'while it loads the adapter': (mortal) => {
    mortal.onRequest = (path) => {
      if (path === '/v1/load_lora_adapter') mortal.kill();
    };
  },
  'after it loaded the adapter': (mortal) => {
    mortal.onRequest = (path) => {
      if (path === '/v1/models') mortal.kill();
    };
  },
  'while it is probed': (mortal) => {
    mortal.onRequest = (_, body) => {
      if (isProbe(body)) mortal.kill();
    };
  },
};

describe('a replica that is killed', () => {
  const cases = Object.entries(phases).flatMap(([when, arrange], i) =>
    [true, false].map((withAdapters) => ({ when, arrange, withAdapters, isLong: withAdapters === (i % 2 === 1) })),
  );
  it.each(cases.filter(({ isLong }) => !isLong))(
    '$when rests, the other serves, and it is back with the version (adapters kept: $withAdapters)',
    async (each) => expect(await isBack(each)).toBe(true),
  );
  it.each(cases.filter(({ isLong }) => isLong))(
    '$when rests, the other serves, and it is back with the version (adapters kept: $withAdapters)',
    { tags: 'long' },
    async (each) => expect(await isBack(each)).toBe(true),
  );

  async function isBack({
    arrange,
    withAdapters,
  }: {
    readonly arrange: (mortal: MortalReplica) => void;
    readonly withAdapters: boolean;
  }): Promise<true> {
    await using run = await twoReplicas();
    const [living, mortal] = run.replicas;
    expect(await run.policy.publish(1, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    arrange(mortal);
    expect(await run.policy.publish(2, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    expect(run.versions.current()).toMatchObject({ version: 2, model: 'run-v000002' });
    expect(messages(run, 'replica_lost')[0]).toMatch(
      new RegExp(`^${mortal.url} gets no requests until it is back: it did not take version 2: .*\\. 1 of 2 replicas serve version 2$`),
    );
    const before = mortal.completions.length;
    for (let i = 0; i < 6; i++) expect(await run.sample()).toBe('run-v000002');
    expect(mortal.completions.slice(before).filter((body) => !isProbe(body))).toEqual([]);

    mortal.onRequest = () => {};
    await mortal.comeBack({ withAdapters });
    await until(() => messages(run, 'replica_recovered').length > 0);
    expect(messages(run, 'replica_recovered')).toEqual([
      `${mortal.url} serves again: version 2 was loaded there again as run-v000002 and compared. 2 of 2 replicas serve version 2`,
    ]);
    const adapters = await mortal.adapters();
    expect(adapters).toEqual(['run-v000002']);
    // It was probed before the first rollout.
    expect(isProbe(mortal.completions.findLast((body) => body.includes('run-v000002'))!)).toBe(true);
    const asked = [living.completions.length, mortal.completions.length];
    await Promise.all(Array.from({ length: 8 }, () => run.sample()));
    expect([living.completions.length - asked[0]!, mortal.completions.length - asked[1]!]).toEqual([4, 4]);
    expect(await run.policy.publish(3, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    expect([await living.adapters(), await mortal.adapters()]).toEqual([['run-v000003'], ['run-v000003']]);
    return true;
  }

  it.each([true, false])('while it samples gives its requests to the other, and comes back (adapters kept: %s)', async (withAdapters) => {
    await using run = await twoReplicas();
    const [living, mortal] = run.replicas;
    await run.policy.publish(1, { text: TEXT }, run.signal);
    mortal.onRequest = () => mortal.kill();
    const sampled = await Promise.all(Array.from({ length: 10 }, () => run.sample()));
    expect(new Set(sampled)).toEqual(new Set(['run-v000001']));
    expect(living.completions.filter((body) => !isProbe(body))).toHaveLength(10);
    expect(messages(run, 'replica_lost')).toHaveLength(1);
    mortal.onRequest = () => {};
    await mortal.comeBack({ withAdapters });
    await until(() => messages(run, 'replica_recovered').length > 0);
    expect(messages(run, 'replica_recovered')[0]).toContain(
      withAdapters ? 'it still serves version 1' : 'version 1 was loaded there again as run-v000001',
    );
    expect(run.versions.replicas.serves(mortal.url, 'run-v000001')).toBe(true);
  });

  it('while the base serves is back as soon as it answers', async () => {
    await using run = await twoReplicas();
    const [, mortal] = run.replicas;
    mortal.onRequest = () => mortal.kill();
    await Promise.all(Array.from({ length: 4 }, () => run.sample()));
    mortal.onRequest = () => {};
    await mortal.comeBack({ withAdapters: false });
    await until(() => messages(run, 'replica_recovered').length > 0);
    expect(messages(run, 'replica_recovered')[0]).toBe(`${mortal.url} serves again: it still serves version 0. 2 of 2 replicas serve version 0`);
  });

  it('and whose adapter is wrong when it is back stays at rest', async () => {
    await using run = await twoReplicas();
    const [, mortal] = run.replicas;
    mortal.kill();
    await run.policy.publish(1, { text: TEXT }, run.signal);
    // The weights that it would read are others now.
    mortal.onRequest = (path, body) => {
      if (path === '/v1/completions' && body.includes('run-v000001')) throw new Error('it answers nothing');
    };
    await mortal.comeBack({ withAdapters: false });
    await until(() => mortal.completions.length > 0);
    await run.sample();
    expect(run.versions.replicas.serves(mortal.url, 'run-v000001')).toBe(false);
  });
});

describe('a quorum of two', () => {
  it('waits for a replica that is down, then publishes to both', async () => {
    await using run = await twoReplicas({ quorum: 2 });
    const [living, mortal] = run.replicas;
    mortal.kill();
    const publishing = run.policy.publish(1, { text: TEXT }, run.signal);
    await until(() => messages(run, 'policy_lost').length > 0);
    expect([run.versions.current().version, await living.adapters()]).toEqual([0, []]);
    await mortal.comeBack({ withAdapters: false });
    expect(await publishing).toMatchObject({ ok: true });
    expect([await living.adapters(), await mortal.adapters()]).toEqual([['run-v000001-2'], ['run-v000001-2']]);
  });

  it('is not met while too few answer: recovering waits for them', async () => {
    await using run = await twoReplicas({ quorum: 2 });
    const [, mortal] = run.replicas;
    await run.policy.publish(1, { text: TEXT }, run.signal);
    mortal.kill();
    let isBack = false;
    const recovering = run.policy.recover(run.signal).then((wasGiven) => {
      isBack = true;
      return wasGiven;
    });
    await until(() => messages(run, 'replica_lost').length > 0);
    expect(isBack).toBe(false);
    await mortal.comeBack({ withAdapters: false });
    expect(await recovering).toBe(true);
    expect(run.reported.at(-1)).toEqual({
      kind: 'policy_recovered',
      message: '2 of 2 replicas serve version 1; version 1 serves again as run-v000001',
    });
  });
});

describe('both replicas dead', () => {
  it('give the run its version back, under its name, as soon as one of them answers', async () => {
    await using run = await twoReplicas();
    const [one, two] = run.replicas;
    await run.policy.publish(1, { text: TEXT }, run.signal);
    one.kill();
    two.kill();
    await expect(run.sample()).rejects.toMatchObject({ name: 'PolicyError', retryable: true });
    const recovering = run.policy.recover(run.signal);
    await two.comeBack({ withAdapters: false });
    expect(await recovering).toBe(true);
    expect(await run.sample()).toBe('run-v000001');
    expect(one.completions.filter((body) => !isProbe(body))).toEqual([]);
  });
});

describe('a replica that hangs', () => {
  it('does not hold up a publish for longer than its grace', async () => {
    await using run = await twoReplicas({ stragglerMs: 50 });
    const [, mortal] = run.replicas;
    mortal.onRequest = (path) => (path === '/v1/load_lora_adapter' ? new Promise(() => {}) : undefined);
    expect(await run.policy.publish(1, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    expect(messages(run, 'replica_lost')[0]).toContain('it took 0.05 s longer than the others');
    expect(run.versions.replicas.serves(mortal.url, 'run-v000001')).toBe(false);
    mortal.onRequest = () => {};
  });
});

describe('a replica that answers and does not catch up', () => {
  const hanging = (path: string) => (path === '/v1/load_lora_adapter' ? new Promise<void>(() => {}) : undefined);

  it('holds up no publish: its catching up gives way, and goes on with the new version', async () => {
    await using run = await twoReplicas({ stragglerMs: 50, loadTimeoutMs: 60_000 });
    const [, mortal] = run.replicas;
    let loads = 0;
    mortal.onRequest = (path) => {
      loads += Number(path === '/v1/load_lora_adapter');
      return hanging(path);
    };
    expect(await run.policy.publish(1, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    for (const version of [2, 3]) {
      // It is asked to load what serves, and does not answer.
      const asked = loads;
      await until(() => loads > asked);
      expect(await run.policy.publish(version, { text: TEXT }, run.signal)).toMatchObject({
        ok: true,
        report: { loadSeconds: expect.any(Number) as number },
      });
      expect(run.versions.replicas.isResting(mortal.url)).toBe(true);
    }
    mortal.onRequest = () => {};
    expect(await run.policy.publish(4, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    await until(() => run.versions.replicas.serves(mortal.url, 'run-v000004'));
    expect(messages(run, 'replica_recovered').at(-1)).toContain('version 4 was loaded there again as run-v000004');
  });

  it('does not hold up another one that must be checked', async () => {
    await using run = await twoReplicas({ stragglerMs: 50, loadTimeoutMs: 60_000 });
    const [, mortal] = run.replicas;
    mortal.onRequest = hanging;
    await run.policy.publish(1, { text: TEXT }, run.signal);
    expect(await run.policy.recover(run.signal)).toBe(false);
    expect(await run.sample()).toBe('run-v000001');
    mortal.onRequest = () => {};
  });

  it('counts as lost for good after a while: a run that needs it ends', async () => {
    await using run = await twoReplicas({ quorum: 2, patienceMs: 0 });
    const [, mortal] = run.replicas;
    await run.policy.publish(1, { text: TEXT }, run.signal);
    mortal.kill();
    await expect(run.sample().then(() => run.sample())).resolves.toBe('run-v000001');
    mortal.onRequest = (path) => {
      if (path === '/v1/load_lora_adapter') throw new Error('the connection breaks');
    };
    await mortal.comeBack({ withAdapters: false });
    await expect(run.policy.recover(run.signal)).rejects.toThrow(/Cannot serve version 1 again: .*does not serve version 1/);
  });
});

describe('a resting replica that may still compute an abandoned request', () => {
  it.each([
    [true, ['run-v000001', 'run-v000002']],
    [false, ['run-v000002']],
  ])('keeps the files of its version (abandoned: %s)', async (isAbandoned, kept) => {
    await using run = await twoReplicas();
    const [, mortal] = run.replicas;
    await run.policy.publish(1, { text: TEXT }, run.signal);
    if (isAbandoned) run.versions.replicas.abandon(mortal.url, 'run-v000001');
    mortal.kill();
    run.versions.replicas.rest(mortal.url, 'it does not answer');
    expect(await run.policy.publish(2, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    expect(readdirSync(run.folder).toSorted()).toEqual(kept);
  });
});

describe('callers that wait for the same server', () => {
  it('each learn that it was given its version again, and that a newer one was published', async () => {
    await using run = await twoReplicas({ quorum: 2 });
    await run.policy.publish(1, { text: TEXT }, run.signal);
    const [first, second, third] = [run.policy.recovery(), run.policy.recovery(), run.policy.recovery()];
    for (const replica of run.replicas) {
      replica.kill();
      await replica.comeBack({ withAdapters: false });
    }
    expect(await Promise.all([first(run.signal), second(run.signal)])).toEqual([true, true]);
    expect([await first(run.signal), await second(run.signal)]).toEqual([false, false]);
    // Its requests were refused because a newer version had taken the place of theirs.
    await run.policy.publish(2, { text: TEXT }, run.signal);
    expect([await first(run.signal), await third(run.signal), await third(run.signal)]).toEqual([true, true, false]);
  });
});

describe('a permanent failure of one replica', () => {
  it('rests that replica, and ends nothing', async () => {
    await using run = await twoReplicas();
    const [, mortal] = run.replicas;
    mortal.onRequest = (path) => {
      if (path.startsWith('/v1/load')) throw new PublishError('torn');
    };
    for (const version of [1, 2, 3]) expect(await run.policy.publish(version, { text: TEXT }, run.signal)).toMatchObject({ ok: true });
    expect(run.versions.current().version).toBe(3);
    expect(modelsAsked(mortal)).toEqual([]);
  });
});

describe('the end of a run', () => {
  /** Published at both, then the end. */
  async function ended({ keeps, before }: { readonly keeps: boolean; readonly before: (mortal: MortalReplica) => void }) {
    await using run = await twoReplicas();
    const [living, mortal] = run.replicas;
    await run.policy.publish(1, { text: TEXT }, run.signal);
    before(mortal);
    const lines = await run.publisher.withdraw({ keeps });
    const resting = [living, mortal].map(({ url }) => run.versions.replicas.isResting(url));
    return { lines: lines.map((line) => line.replace(mortal.url, 'MORTAL')), resting, adapters: await living.adapters() };
  }

  it.each([
    [false, []],
    [true, ['run-v000001']],
  ])('counts a replica that died after its last request as one that does not serve (keeps the adapter: %s)', async (keeps, adapters) => {
    const end = await ended({ keeps, before: (mortal) => mortal.kill() });
    expect(end).toEqual({ lines: [], resting: [false, true], adapters });
  });

  it('counts a replica that was restarted after its last request as one that does not serve the adapter that is kept', async () => {
    const end = await ended({ keeps: true, before: (mortal) => (mortal.onRequest = (path) => (path === '/v1/models' ? mortal.kill() : undefined)) });
    expect(end).toMatchObject({ lines: [], resting: [false, true] });
  });

  it('names a server that did not unload an adapter, and the adapter', async () => {
    const refuse = (mortal: MortalReplica) => {
      mortal.answer = (path) => (path === '/v1/unload_lora_adapter' ? { status: 500, text: '{"error": {"message": "no"}}' } : null);
    };
    const { lines, resting } = await ended({ keeps: false, before: refuse });
    expect(resting).toEqual([false, false]);
    expect(lines).toEqual([
      expect.stringMatching(
        /^MORTAL still has run-v000001: The server did not unload run-v000001: .*500.*\. Unload it with POST \/v1\/unload_lora_adapter, or restart the server$/,
      ),
    ]);
  });
});
