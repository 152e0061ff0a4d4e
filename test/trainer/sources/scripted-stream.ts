/** A stream of groups that a test ends in any order, over real files. */
import { join } from 'node:path';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import { type GroupPlan, type PlayedGroup, StreamedSource } from '../../../src/trainer/sources/streamed-source.ts';
import type { TrajectoryBatch } from '../../../src/trainer/trajectory-source.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';

const UNPLAYED = { type: 'UnplayedError', message: "The prompt has 9 tokens, and the model's window 8", retryable: false, source: 'prompt' } as const;

export const EXAMPLES = 3;
export const ROLLOUTS = 2;

export interface Playing {
  readonly plan: GroupPlan;
  readonly version: number;
  end(changes?: { readonly rewards?: readonly (number | null)[]; readonly failed?: number }): void;
  fail(error: Error): void;
}

/** A stream whose groups end when the test says so; `train` stands for a step that changes the weights. */
export async function stream(folder: string, { rows = 30, steps = 20, rollouts = {} }: StreamOptions = {}) {
  const store = new RolloutFiles(join(folder, 'rollouts'));
  const recorded = new Set((await store.complete()).map(({ step }) => step));
  const playing: Playing[] = [];
  const begun: string[] = [];
  const reported: string[] = [];
  let version = 0;
  let waits = Promise.withResolvers<void>();
  const config = someConfig({
    steps,
    seed: 5,
    rollouts: { examples_per_step: EXAMPLES, rollouts_per_example: ROLLOUTS, max_staleness: 2, ...rollouts },
    algorithm: { old_log_probs: 'sampler' },
  });
  const source = new StreamedSource(
    {
      config,
      environment: new CountingEnv({ rows }),
      play: () => Promise.reject(new Error('A stream plays groups')),
      store,
      stepsBefore: 0,
      isRecorded: (step) => recorded.has(step),
      onRollouts: () => {},
      report: ({ message }) => void reported.push(message),
      version: () => version,
      playGroup: (plan, signal) => {
        const { promise, resolve, reject } = Promise.withResolvers<PlayedGroup>();
        const own: Playing = {
          plan,
          version,
          end: ({ rewards = [0, 1], failed = 0 } = {}) => {
            playing.splice(playing.indexOf(own), 1);
            const members = rewards.map((reward, i) =>
              trajectory(`${plan.row.exampleId}/${i}`, {
                reward,
                ...(reward === null ? { error: UNPLAYED } : {}),
                policy: { model: 'm', version: own.version },
              }),
            );
            resolve({ rollouts: new Map(members.map((each) => [each.rolloutId, { trajectory: each, asked: [], trace: [] }])), failed, attempts: 1 });
          },
          fail: reject,
        };
        signal.addEventListener('abort', () => reject(signal.reason as Error));
        playing.push(own);
        begun.push(String(plan.row.exampleId));
        waits.resolve();
        waits = Promise.withResolvers();
        return promise;
      },
    },
    steps,
  );
  const stop = new AbortController();
  const take = (step: number) => {
    const batch = source.take(step, stop.signal);
    batch.catch(() => {});
    return batch;
  };
  return {
    source,
    store,
    playing,
    begun,
    reported,
    take,
    stop,
    train: (to: number) => (version = to),
    get version() {
      return version;
    },
  };
}

interface StreamOptions {
  readonly rows?: number;
  readonly steps?: number;
  readonly rollouts?: Record<string, unknown>;
}

export const rowsOf = ({ trajectories }: Pick<TrajectoryBatch, 'trajectories'>) => [...new Set(trajectories.map(({ groupId }) => groupId))];

/** Until nothing moves but what the test ends: file operations take several turns of the event loop. */
export async function until(claim: () => boolean): Promise<void> {
  while (!claim()) await new Promise((resolve) => setImmediate(resolve));
}

type Stream = Awaited<ReturnType<typeof stream>>;

/** Ends groups that `choose` names, until the batch is there. */
export async function endUntil(batch: Promise<TrajectoryBatch>, { playing }: Stream, choose: (playing: readonly Playing[]) => Playing | undefined) {
  const state = { isSettled: false };
  void batch.catch(() => {}).finally(() => (state.isSettled = true));
  while (!state.isSettled) {
    choose(playing)?.end();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return batch;
}
