/** Two replicas of which one dies: before a publish, while it loads, while it is probed, while it samples; and comes back with and without its adapters. */
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
  const cases = Object.entries(phases).flatMap(([when, arrange]) => [true, false].map((withAdapters) => ({ when, arrange, withAdapters })));
  it.each(cases)(
    '$when rests, the other serves, and it is back with the version (adapters kept: $withAdapters)',
    async ({ arrange, withAdapters }) => {
      await using run = await twoReplicas();
      const [living, mortal] = run.replicas;
      expect(await run.policy.publish(1, TEXT, run.signal)).toMatchObject({ ok: true });
      arrange(mortal);
      expect(await run.policy.publish(2, TEXT, run.signal)).toMatchObject({ ok: true });
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
      expect(await run.policy.publish(3, TEXT, run.signal)).toMatchObject({ ok: true });
      expect([await living.adapters(), await mortal.adapters()]).toEqual([['run-v000003'], ['run-v000003']]);
    },
  );

  it.each([true, false])('while it samples gives its requests to the other, and comes back (adapters kept: %s)', async (withAdapters) => {
    await using run = await twoReplicas();
    const [living, mortal] = run.replicas;
    await run.policy.publish(1, TEXT, run.signal);
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
    await run.policy.publish(1, TEXT, run.signal);
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
    const publishing = run.policy.publish(1, TEXT, run.signal);
    await until(() => messages(run, 'policy_lost').length > 0);
    expect([run.versions.current().version, await living.adapters()]).toEqual([0, []]);
    await mortal.comeBack({ withAdapters: false });
    expect(await publishing).toMatchObject({ ok: true });
    expect([await living.adapters(), await mortal.adapters()]).toEqual([['run-v000001-2'], ['run-v000001-2']]);
  });

  it('is not met while too few answer: recovering waits for them', async () => {
    await using run = await twoReplicas({ quorum: 2 });
    const [, mortal] = run.replicas;
    await run.policy.publish(1, TEXT, run.signal);
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
    await run.policy.publish(1, TEXT, run.signal);
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
    expect(await run.policy.publish(1, TEXT, run.signal)).toMatchObject({ ok: true });
    expect(messages(run, 'replica_lost')[0]).toContain('it took 0.05 s longer than the others');
    expect(run.versions.replicas.serves(mortal.url, 'run-v000001')).toBe(false);
    mortal.onRequest = () => {};
  });
});

describe('a permanent failure of one replica', () => {
  it('rests that replica, and ends nothing', async () => {
    await using run = await twoReplicas();
    const [, mortal] = run.replicas;
    mortal.onRequest = (path) => {
      if (path.startsWith('/v1/load')) throw new PublishError('torn');
    };
    for (const version of [1, 2, 3]) expect(await run.policy.publish(version, TEXT, run.signal)).toMatchObject({ ok: true });
    expect(run.versions.current().version).toBe(3);
    expect(modelsAsked(mortal)).toEqual([]);
  });
});
