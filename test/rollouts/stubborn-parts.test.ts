/** Parts that fail in ways their interfaces do not promise: they ignore signals, fail while cleaning up, throw things that are not errors. */
import { describe, expect, it } from 'vitest';
import type { PolicyClient, PolicyLease } from '../../src/clients/policy-client.ts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import type { Episode } from '../../src/core/environment.ts';
import { CancelledError, ConfigError } from '../../src/core/errors.ts';
import { reward, Rubric } from '../../src/core/rubric.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';
import { CountingEnv } from './counting-env.ts';

const never = () => new Promise<never>(() => {});

async function play(environment: CountingEnv, more: Partial<RunOptions<never>> = {}): Promise<Rollout[]> {
  const rollouts: Rollout[] = [];
  const options = {
    environment,
    client: new ScriptedClient({ turns: ['one;', 'stop;'] }),
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    maxConcurrent: 2,
    timeoutMs: null,
    seed: 0,
    scoringGraceMs: 20,
    signal: new AbortController().signal,
    ...more,
  } as RunOptions<never>;
  const groups = [...environment.eval].map((row) => ({ row: row as never, indices: [0] }));
  for await (const group of runRollouts(groups, options)) rollouts.push(...group.rollouts);
  return rollouts;
}

/** A client whose leases are opened by `open`, and which knows how many are held. */
function countingLeases(open: (lease: () => Promise<PolicyLease>, signal: AbortSignal) => Promise<PolicyLease>): PolicyClient & { held: number } {
  const inner = new ScriptedClient({ turns: ['stop;'] });
  const client = {
    capabilities: inner.capabilities,
    name: inner.name,
    close: () => inner.close(),
    held: 0,
    lease: (signal: AbortSignal) =>
      open(async () => {
        const lease = await inner.lease(new AbortController().signal);
        client.held += 1;
        return { ...lease, [Symbol.asyncDispose]: async () => void (client.held -= 1) };
      }, signal),
  };
  return client;
}

describe('runRollouts', () => {
  it('ends a rollout at its deadline where the environment ignores the signal, and disposes the episode', async () => {
    const environment = new CountingEnv({ onStep: never });
    const [rollout] = await play(environment, { timeoutMs: 20 });
    expect(rollout).toMatchObject({ stop: 'timeout_reached', reward: null, error: { type: 'TimeoutError', phase: 'environment' } });
    expect(rollout!.segments).toEqual([{ kind: 'model', text: 'one;' }]);
    expect(environment.disposed).toEqual([0]);
  });

  it('cancels where the environment, the policy or a reward ignores the signal', async () => {
    const stubborn: [string, CountingEnv, PolicyClient?][] = [
      ['environment', new CountingEnv({ onStep: never })],
      ['policy', new CountingEnv(), new ScriptedClient({ turns: never })],
      ['lease', new CountingEnv(), countingLeases(never)],
      ['reward', new CountingEnv({ rubric: new Rubric({ funcs: [reward(never, { name: 'judge' })] }) })],
    ];
    for (const [, environment, client] of stubborn) {
      const stop = new AbortController();
      const run = play(environment, { signal: stop.signal, ...(client && { client }) });
      setImmediate(() => stop.abort());
      await expect(run).rejects.toThrow(CancelledError);
    }
  });

  it('treats a lease that waited beyond the deadline as a timeout of that rollout, not as the end of the run', async () => {
    const waiting = countingLeases(
      (_open, signal) =>
        new Promise((_, reject) =>
          signal.addEventListener('abort', () => reject(new CancelledError('Stopped while waiting', { cause: signal.reason }))),
        ),
    );
    const [rollout] = await play(new CountingEnv(), { client: waiting, timeoutMs: 20 });
    expect(rollout).toMatchObject({ stop: 'timeout_reached', reward: null, error: { type: 'TimeoutError', phase: 'lease' } });
  });

  it('releases a lease and disposes an episode that arrive after the deadline', async () => {
    const late = Promise.withResolvers<void>();
    const client = countingLeases((open) => late.promise.then(open));
    expect((await play(new CountingEnv(), { client, timeoutMs: 20 }))[0]).toMatchObject({ stop: 'timeout_reached' });

    const environment = new CountingEnv();
    const start = environment.start.bind(environment);
    environment.start = (row, options): Promise<Episode> => late.promise.then(() => start(row, options));
    expect((await play(environment, { timeoutMs: 20 }))[0]).toMatchObject({ stop: 'timeout_reached', error: { phase: 'setup' } });

    late.resolve();
    await expect.poll(() => [client.held, environment.disposed]).toEqual([0, [0]]);
  });

  it('changes nothing on a rollout after its deadline', async () => {
    const answer = Promise.withResolvers<void>();
    const [rollout] = await play(new CountingEnv({ onStep: () => answer.promise }), { timeoutMs: 20 });
    answer.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(rollout!.segments).toHaveLength(1);
    expect(rollout!.generations).toHaveLength(1);
    expect(rollout!.branches[0]!.tokens!.segments.map((s) => s.kind)).toEqual(['prompt', 'model']);
  });

  it('gives the rewards the same deadline, and keeps the transcript', async () => {
    const environment = new CountingEnv({ rubric: new Rubric({ funcs: [reward(never, { name: 'judge' })] }) });
    const [rollout] = await play(environment, { timeoutMs: 20 });
    expect(rollout).toMatchObject({ reward: null, error: { type: 'TimeoutError', phase: 'scoring' } });
    expect(rollout!.segments).toHaveLength(3);
  });

  it('leaves out a rollout that was being scored when the run was cancelled', async () => {
    const stop = new AbortController();
    const judge = reward(
      ({ signal }) => {
        setImmediate(() => stop.abort());
        return new Promise<number>((_, reject) => signal.addEventListener('abort', () => reject(new Error('socket closed'))));
      },
      { name: 'judge' },
    );
    const seen: Rollout[] = [];
    const environment = new CountingEnv({ rubric: new Rubric({ funcs: [judge] }) });
    const run = play(environment, { signal: stop.signal }).then((rollouts) => seen.push(...rollouts));
    await expect(run).rejects.toThrow(CancelledError);
    expect(seen).toEqual([]);
  });

  it('keeps the reward of a rollout whose clean-up fails or hangs, and the error that came first', async () => {
    const failing = (onStep: () => void) => {
      const environment = new CountingEnv({ onStep });
      Object.assign(environment, {
        cleanup: async () => {
          throw new Error('no such container');
        },
      });
      return environment;
    };
    const [clean] = await play(failing(() => {}));
    expect(clean).toMatchObject({
      reward: 9,
      stop: 'completed',
      error: null,
      cleanUpError: { type: 'EnvironmentError', message: 'no such container' },
    });
    const hanging = Object.assign(new CountingEnv(), { cleanup: never });
    expect((await play(hanging, { cleanUpMs: 20 }))[0]).toMatchObject({ reward: 9, error: null, cleanUpError: { type: 'TimeoutError' } });
    const [broken] = await play(
      failing(() => {
        throw new TypeError('row.answer is undefined');
      }),
    );
    expect(broken!.error).toMatchObject({ message: 'row.answer is undefined' });
  });

  it.each<[string, () => unknown, string]>([
    ['an object', () => ({ code: 7 }), '{"code":7}'],
    [
      'an object that contains itself',
      () => {
        const o: { self?: unknown } = {};
        o.self = o;
        return o;
      },
      '[object Object]',
    ],
    ['an object without a prototype', () => Object.create(null), '{}'],
    ['a bigint', () => 7n, '7'],
    ['a symbol', () => Symbol('gone'), 'Symbol(gone)'],
    ['undefined', () => undefined, 'undefined'],
  ])('records %s that an environment throws', async (_name, make, text) => {
    const environment = new CountingEnv({
      onStep: () => {
        // oxlint-disable-next-line only-throw-error -- what a third party may do
        throw make();
      },
    });
    const [rollout] = await play(environment);
    expect(rollout).toMatchObject({ reward: null, error: { type: 'EnvironmentError', phase: 'environment', message: text, chain: text } });
  });

  it.each([0, -1, 1.5, NaN, Infinity])('refuses %s episodes at once', async (maxConcurrent) => {
    await expect(play(new CountingEnv(), { maxConcurrent })).rejects.toThrow(ConfigError);
  });

  it('leaves no listener on the signal of the run', async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners -= 1;
      remove(...args);
    };
    await play(new CountingEnv({ rows: 20 }), { signal, timeoutMs: 60_000 });
    expect(listeners).toBe(0);
  });
});
