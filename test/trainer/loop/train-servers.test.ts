/** What becomes of a run whose policy server dies, forgets its adapters, or accepts no new ones. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError, PolicyError, PublishError } from '../../../src/core/errors.ts';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { eventsOf, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-servers-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const run = (options: Partial<SmallRunOptions> = {}) => trainSmall(path, { backend: async () => new UnigramBackend(), ...options });
const kinds = async () => (await eventsOf(path)).map(({ kind }) => kind);
const refused = () => {
  throw new PolicyError('the server is gone');
};
const worth = (value: () => number) => new CountingEnv({ rows: 9, maxTurns: 1, rubric: new Rubric({ funcs: [reward(value, { name: 'worth' })] }) });
/** A publisher that refuses while `isRefusing` says so. */
const refusing = (isRefusing: (version: number) => boolean, retryable = false): Exclude<SmallRunOptions['session'], undefined> => {
  const failure = new PublishError('no room for adapters', { retryable });
  return (made) => {
    made.publisher.before = async () => {
      made.publisher.failure = isRefusing(made.publisher.requests.at(-1)!.version) ? failure : null;
    };
    return made;
  };
};

describe('servers that fail', () => {
  it('are waited for, given the current version again, and no rollout of theirs is scored', async () => {
    const recovered: string[] = [];
    let step = 0;
    const onPhase = (_: string, at: number) => void (step = at);
    const onTurn = () => {
      if (step >= 3 && recovered.length === 0) refused();
    };
    const caughtUp: string[] = [];
    const session: SmallRunOptions['session'] = (made) => {
      made.publisher.hasLost = true;
      made.publisher.caughtUp = caughtUp;
      return made;
    };
    const servers = { replicas: ['one'], revive: async (replica: string) => void recovered.push(replica) };
    const outcome = await run({ onTurn, servers, session, observer: { onPhase }, config: { evaluation: { every: 0 } } });
    expect(outcome).toMatchObject({ reason: 'finished', version: 6 });
    expect([recovered, caughtUp]).toEqual([['one'], [expect.stringMatching(/^one .*-v000002$/)]]);
    expect(await kinds()).toEqual(['started', 'step_repeated', 'policy_lost', 'policy_recovered', 'finished']);
    expect((await eventsOf(path))[3]!.message).toMatch(/^The policy server answers again; version 2 serves again as .*-v000002$/);
    expect((await rowsOf(path)).map((row) => [row['rollouts'], row['rollouts_failed'], row['sampling_attempts']])).toEqual(
      [1, 1, 2, 1, 1, 1].map((attempts) => [12, 0, attempts]),
    );
  });

  it('and refuse new weights too while they are down, cost an asynchronous run no rollout', async () => {
    let isDown = false;
    const onPhase = (phase: string, step: number) => {
      if (phase === 'backward' && step === 3 && !isRecovered) isDown = true;
    };
    let isRecovered = false;
    const onTurn = () => {
      if (isDown) refused();
    };
    const servers = { replicas: ['one'], revive: async () => void ([isDown, isRecovered] = [false, true]) };
    const config = { evaluation: { every: 0 }, rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_staleness: 1, max_error_rate: 0 } };
    const outcome = await run({ onTurn, servers, observer: { onPhase }, session: refusing(() => isDown, true), config });
    expect(outcome).toMatchObject({ reason: 'finished', version: 6, model: expect.stringMatching(/-v000006$/) as string });
    const rows = await rowsOf(path);
    expect(rows.map((row) => [row['step'], row['rollouts'], row['rollouts_failed']])).toEqual([1, 2, 3, 4, 5, 6].map((step) => [step, 12, 0]));
    expect(rows.every((row) => (row['staleness'] as number) <= 1)).toBe(true);
    const events = await kinds();
    const count = (kind: string) => events.filter((each) => each === kind).length;
    expect([count('publish_failed'), count('policy_recovered')]).toEqual([0, count('policy_lost')]);
    expect(isRecovered).toBe(true);
  });

  it('that refuse one version continue with the one before, and accept the next', async () => {
    const outcome = await run({ session: refusing((version) => version === 2) });
    expect(outcome).toMatchObject({ reason: 'finished', version: 6 });
    const rows = (await rowsOf(path)).filter(({ kind }) => kind === 'step');
    expect(rows.map((row) => [row['sampled_version'], row['staleness']])).toEqual([
      [0, 0],
      [1, 0],
      [1, 1],
      [3, 0],
      [4, 0],
      [5, 0],
    ]);
    expect((await kinds()).filter((kind) => kind === 'publish_failed')).toHaveLength(1);
  });

  it('that refuse a version are offered it again after a step without an update', async () => {
    let steps = 0;
    let scored = 0;
    const environment = worth(() => (steps === 1 ? 0.5 : scored++ % 3));
    const observer = { onStep: () => void steps++ };
    let tries = 0;
    const outcome = await run({
      environment,
      observer,
      session: refusing(() => ++tries === 1),
      config: { evaluation: { every: 0 }, steps: 3 },
    });
    expect(outcome).toMatchObject({ reason: 'finished', version: 3 });
    expect(await kinds()).toEqual(['started', 'publish_failed', 'step_skipped', 'finished']);
    expect((await rowsOf(path)).map((row) => [row['policy_version'], row['sampled_version']])).toEqual([
      [1, 0],
      [1, 0],
      [3, 1],
    ]);
  });

  it('are no longer watched once a session failed to start: an event of theirs would find the records closed', async () => {
    let watched = 0;
    const servers = {
      replicas: ['memory'],
      revive: async () => {},
      watch: () => {
        watched++;
        return { [Symbol.dispose]: () => void watched-- };
      },
    };
    const createSource = () => {
      expect(watched).toBe(1);
      throw new ConfigError('the source wants other settings');
    };
    await expect(run({ servers, createSource })).rejects.toThrow('the source wants other settings');
    expect(watched).toBe(0);
  });

  it('that refuse three versions in a row stop the run', async () => {
    const outcome = await run({ session: refusing(() => true) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 3, version: 0 });
    expect(outcome.message).toMatch(/3 failed publishes in a row; the last: no room for adapters/);
  });

  it('that reject the key end the run at the first rollout; a resume keeps what finished', async () => {
    let turns = 0;
    const onTurn = () => {
      if (++turns === 15) throw new PolicyError('vLLM rejected the API key. Check the key.', { status: 401, endsRun: true });
    };
    const config = { evaluation: { every: 0 }, rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 1 } };
    const outcome = await run({ onTurn, config });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 1, failedRollouts: 1, resumable: true });
    expect(outcome.message).toBe('Stopped at step 2: vLLM rejected the API key. Check the key. Fix this, then continue this run with -R');
    expect(turns).toBe(15);
    expect(await run({ onTurn, config })).toMatchObject({ reason: 'finished', version: 6 });
    expect(turns).toBe(15 + 6 * 12 - 14);
  });

  it('that can never accept a version stop the run at once; a resume publishes what is on file', async () => {
    const failure = new PublishError('Rank 8 exceeds the limit of 4', { endsRun: true });
    const session: SmallRunOptions['session'] = (made) => {
      made.publisher.failure = failure;
      return made;
    };
    const outcome = await run({ session });
    expect(outcome).toMatchObject({
      reason: 'stopped',
      step: 1,
      version: 0,
      message: 'Stopped because no version can be published: Rank 8 exceeds the limit of 4',
    });
    expect((await kinds()).slice(-2)).toEqual(['publish_failed', 'stopped']);
    let turns = 0;
    expect(await run({ onTurn: () => void turns++, config: { steps: 2, evaluation: { every: 0 } } })).toMatchObject({
      reason: 'finished',
      version: 2,
    });
    expect(turns).toBe(12);
  });

  it('that are down when a run is resumed are waited for', async () => {
    await run({ config: { steps: 2 } });
    let isDown = true;
    const servers = { replicas: ['one'], revive: async () => void (isDown = false) };
    const session: SmallRunOptions['session'] = (made) => ({
      ...made,
      client: Object.assign(Object.create(made.client) as typeof made.client, {
        lease: (signal: AbortSignal, options: object) => (isDown ? Promise.reject(new PolicyError('refused')) : made.client.lease(signal, options)),
      }),
    });
    expect(await run({ servers, session })).toMatchObject({ reason: 'finished', version: 6 });
    expect((await kinds()).slice(2)).toEqual(['resumed', 'policy_lost', 'policy_recovered', 'finished']);
  });
});
