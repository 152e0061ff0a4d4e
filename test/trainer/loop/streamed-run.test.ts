/** Runs with max_staleness of 2 and more: groups enter a step as they end. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PolicyError } from '../../../src/core/errors.ts';
import { Random } from '../../../src/core/random.ts';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-streamed-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const STREAMED = {
  rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 8, max_staleness: 2 },
  checkpoint: { every: 2, keep: 2, keep_rollouts: true },
};
const run = ({ config = {}, ...options }: Partial<SmallRunOptions> = {}, at = path) =>
  trainSmall(at, { backend: async () => new UnigramBackend(), ...options, config: { ...STREAMED, ...config } });

/** Lets every generation take as many turns of the event loop as its name says. */
const uneven: SmallRunOptions['onTurn'] = async ({ key }) => {
  const turns = Random.fromSeed(11).fork(key!).uint32() % 40;
  for (let i = 0; i < turns; i++) await nextTurn();
};

/** Repeats the run at `path` from its recorded rollouts, without a policy, and expects the same weights and metrics. */
async function expectRepeatable(outcome: Awaited<ReturnType<typeof run>>, config: Record<string, unknown> = {}): Promise<void> {
  const again = await newRun(await mkdtemp(join(parent, 'again-')));
  for (const folder of ['rollouts', 'evaluations']) await cp(join(path, folder), join(again, folder), { recursive: true }).catch(() => {});
  const repeated = await run({ config, onTurn: () => expect.unreachable('Expected no generation') }, again);
  expect(repeated.reason).toBe('finished');
  expect(await finalAdapter(repeated, 'unigram.json')).toEqual(await finalAdapter(outcome, 'unigram.json'));
  expect(await rowsOf(again)).toEqual(await rowsOf(path));
}

/** Ids of the groups that each step has on file. */
async function groupsOnFile(steps: number): Promise<string[][]> {
  const store = new RolloutFiles(join(path, 'rollouts'));
  await store.restoreFrom(1);
  const groups: string[][] = [];
  for (let step = 1; step <= steps; step++) {
    await using record = await store.open(step);
    expect(record.isComplete).toBe(true);
    groups.push([...new Set(record.recorded.map(({ groupId }) => groupId))]);
  }
  return groups;
}

describe('a run that streams its groups', () => {
  it('trains every step on its groups, each row once a pass, no staler than allowed, and is repeated from its files', async () => {
    let active = 0;
    let most = 0;
    const onTurn: SmallRunOptions['onTurn'] = async (turn) => {
      most = Math.max(most, ++active);
      await uneven(turn);
      active--;
    };
    const outcome = await run({ onTurn, config: { evaluation: { every: 0 } } });
    expect(most).toBe(8);
    expect(outcome).toMatchObject({ reason: 'finished', step: 6, version: 6 });
    const rows = (await rowsOf(path)).filter(({ kind }) => kind === 'step');
    expect(rows.map((row) => row['rollouts'])).toEqual(Array(6).fill(12));
    for (const row of rows) expect(row['staleness']).toBeLessThanOrEqual(2);
    expect(Math.max(...rows.map((row) => row['staleness'] as number))).toBeGreaterThan(1);
    expect(rows.reduce((sum, row) => sum + (row['groups_stale'] as number), 0)).toBe(0);
    const counts = new Map<string, number>();
    for (const groupId of (await groupsOnFile(6)).flat()) counts.set(groupId, (counts.get(groupId) ?? 0) + 1);
    expect([...counts.values()]).toEqual(Array(9).fill(2));
    await expectRepeatable(outcome, { evaluation: { every: 0 } });
  });

  it('ends with the weights of its recorded batches after an interruption in every phase of the third step', async () => {
    expect(await interrupted((step) => step === 3)).toBeGreaterThan(5);
  });

  it('ends with the weights of its recorded batches after an interruption in every phase of every step', { tags: 'long' }, async () => {
    expect(await interrupted(() => true)).toBeGreaterThan(20);
  });

  /** Interrupts a run in every phase of the chosen steps. How many attempts it took. */
  const interrupted = async (isChosen: (step: number) => boolean): Promise<number> => {
    const visited = new Set<string>();
    let outcome: Awaited<ReturnType<typeof run>> | null = null;
    let attempts = 0;
    while (outcome?.reason !== 'finished') {
      expect(++attempts).toBeLessThan(80);
      const stop = new AbortController();
      const onPhase = (phase: string, step: number) => {
        if (stop.signal.aborted || !isChosen(step) || visited.has(`${step} ${phase}`)) return;
        visited.add(`${step} ${phase}`);
        stop.abort();
      };
      outcome = await run({ onTurn: uneven, signal: stop.signal, observer: { onPhase } });
    }
    expect((await groupsOnFile(6)).map(({ length }) => length)).toEqual(Array(6).fill(3));
    expect((await rowsOf(path)).filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
    await expectRepeatable(outcome);
    return attempts;
  };

  it.each([
    ['drop', 0, 2],
    ['weight', 3, 9],
  ])('is not held up by a rollout that lasts four steps: %s', async (staleGroups, least, most) => {
    const config = { steps: 8, rollouts: { ...STREAMED.rollouts, stale_groups: staleGroups }, evaluation: { every: 0 } };
    const released = Promise.withResolvers<void>();
    let slow: string | null = null;
    const onTurn: SmallRunOptions['onTurn'] = async ({ key }) => {
      slow ??= key!;
      if (key === slow) await released.promise;
      else await uneven({ key } as Parameters<typeof uneven>[0]);
    };
    const onPhase = (phase: string, step: number) => {
      if (phase === 'forward' && step === 5) released.resolve();
    };
    const outcome = await run({ onTurn, observer: { onPhase }, config });
    expect(outcome).toMatchObject({ reason: 'finished', version: 8 });
    const row = slow!.split('/')[0]!;
    const steps = (await rowsOf(path)).filter(({ kind }) => kind === 'step');
    expect((await groupsOnFile(8)).slice(0, 4).every((groups) => !groups.includes(row) || groups.length === 3)).toBe(true);
    expect(steps.reduce((sum, each) => sum + (each['groups_stale'] as number), 0)).toBeGreaterThanOrEqual(1);
    const oldest = Math.max(...steps.map((each) => each['staleness'] as number));
    expect(oldest).toBeGreaterThanOrEqual(least);
    expect(oldest).toBeLessThanOrEqual(most);
    await expectRepeatable(outcome, config);
  });

  it('waits once for a server that all groups lose, and samples what failed again', async () => {
    const recovered: string[] = [];
    let step = 0;
    const onPhase = (_: string, at: number) => void (step = at);
    const onTurn = () => {
      if (step >= 3 && recovered.length === 0) throw new PolicyError('the server is gone');
    };
    const servers = { replicas: ['one'], revive: async (replica: string) => void recovered.push(replica) };
    const outcome = await run({ onTurn, servers, observer: { onPhase }, config: { evaluation: { every: 0 } } });
    expect(outcome).toMatchObject({ reason: 'finished', version: 6 });
    expect(recovered).toEqual(['one']);
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'policy_lost')).toHaveLength(1);
    expect((await rowsOf(path)).map((row) => [row['rollouts'], row['rollouts_failed']])).toEqual(Array.from({ length: 6 }, () => [12, 0]));
  });
});
