/** Plays and scores many rollouts at once and yields each as it is done. Groups of one row are scored together where the rubric asks for it. */
import { setImmediate as nextEventLoopTurn } from 'node:timers/promises';
import type { PolicyClient, Sampling } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { CancelledError, ConfigError, TimeoutError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { LONGEST_TIMER_MS } from '../core/timers.ts';
import { playEpisode } from './play.ts';
import { type Played, type Rollout, rolloutError, sumUsage } from './rollout.ts';
import { scoreRollouts } from './score.ts';
import type { Overlong } from './transcript.ts';
import { openUntilAborted } from './until-aborted.ts';

/** The rollouts of one row that are to be played. */
export interface RolloutGroup<R extends Row> {
  readonly row: R;
  /** Which of the row's rollouts: 0 to rollouts per example - 1. A resumed run plays only the missing ones. */
  readonly indices: readonly number[];
}

export interface RunOptions<R extends Row> {
  readonly environment: Environment<R>;
  readonly client: PolicyClient;
  readonly sampling: Sampling;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  /** Episodes in flight at once, from 1 up. */
  readonly maxConcurrent: number;
  /** Wall clock of one attempt at a rollout, and once more of its rewards, in milliseconds; null sets none. */
  readonly timeoutMs: number | null;
  /** How often an episode that failed retryably is begun again, on another replica if there is one. @default 1 */
  readonly maxReplays?: number;
  readonly seed: number;
  /** @default what the environment says, else 'stop' */
  readonly overlong?: Overlong;
  /** Score every rollout alone and at once, even where the rubric has group rewards. @default false */
  readonly independentScoring?: boolean;
  readonly signal: AbortSignal;
  /** Told whenever the number of episodes in flight changes. */
  readonly onActive?: (active: number) => void;
}

/**
 * Yields finished rollouts in the order they end. Failures are rollouts with an error; only cancellation throws (CancelledError), after every
 * rollout that had finished was yielded.
 */
export async function* runRollouts<R extends Row>(groups: Iterable<RolloutGroup<R>>, options: RunOptions<R>): AsyncGenerator<Rollout<R>, void> {
  const { maxConcurrent } = options;
  if (!Number.isSafeInteger(maxConcurrent) || maxConcurrent < 1)
    throw new ConfigError(`Expected maxConcurrent to be an integer from 1 up, got ${maxConcurrent}`);
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const finished = new Inbox<Rollout<R>>();
  const tasks = eachTask(groups, options, (rollouts) => finished.add(rollouts));
  let failure: unknown;
  let active = 0;
  const work = async () => {
    try {
      for (const task of tasks) {
        // A policy that computes in this process would otherwise keep Ctrl-C, deadlines and the reader waiting until the run is over.
        await nextEventLoopTurn();
        options.onActive?.(++active);
        await task(signal).finally(() => options.onActive?.(--active));
      }
    } catch (error) {
      failure ??= error;
      stop.abort(error);
    }
  };
  const workers = Promise.all(Array.from({ length: maxConcurrent }, work)).finally(() => finished.end());
  try {
    for (;;) {
      const batch = await finished.take();
      if (batch.length === 0) break;
      yield* batch;
    }
  } finally {
    stop.abort(new CancelledError('The reader of the rollouts stopped'));
    await workers;
  }
  if (failure !== undefined) throw failure;
}

/** What is done but not yet read. */
class Inbox<T> {
  #items: T[] = [];
  #ended = false;
  #arrival = Promise.withResolvers<void>();

  add(items: readonly T[]): void {
    if (items.length === 0) return;
    this.#items.push(...items);
    this.#arrival.resolve();
  }

  end(): void {
    this.#ended = true;
    this.#arrival.resolve();
  }

  /** Everything that has arrived, waiting for the first; empty at the end. */
  async take(): Promise<readonly T[]> {
    await this.#arrival.promise;
    const items = this.#items;
    this.#items = [];
    if (!this.#ended) this.#arrival = Promise.withResolvers();
    return items;
  }
}

type Task = (signal: AbortSignal) => Promise<void>;

function* eachTask<R extends Row>(
  groups: Iterable<RolloutGroup<R>>,
  options: RunOptions<R>,
  deliver: (rollouts: readonly Rollout<R>[]) => void,
): Generator<Task, void> {
  const { rubric } = options.environment;
  const together = rubric.hasGroupRewards && options.independentScoring !== true;
  for (const { row, indices } of groups) {
    const members: Rollout<R>[] = [];
    for (const index of indices) {
      yield async (signal) => {
        if (signal.aborted) throw new CancelledError('The run was cancelled', { cause: signal.reason });
        const rollout = await playRollout(row, index, options, signal);
        if (together) members.push(rollout);
        if (together && members.length < indices.length) return;
        using deadline = deadlineOf('the rewards to be computed', signal, options.timeoutMs);
        deliver(await scoreRollouts(rubric, together ? members : [rollout], deadline.signal));
      };
    }
  }
}

/** Plays one rollout, again if it failed retryably. The last attempt is the one that counts. */
async function playRollout<R extends Row>(row: R, index: number, options: RunOptions<R>, signal: AbortSignal): Promise<Rollout<R>> {
  const rolloutId = `${row.exampleId}/${index}`;
  const maxReplays = options.maxReplays ?? 1;
  for (let attempts = 1; ; attempts++) {
    const played = await attempt(row, rolloutId, options, signal);
    if (played.error?.retryable === true && played.error.isRetriedOut !== true && attempts <= maxReplays) continue;
    return {
      ...played,
      rolloutId,
      groupId: String(row.exampleId),
      index,
      row,
      reward: null,
      metrics: {},
      usage: sumUsage(played.generations),
      attempts,
      timing: { ...played.timing, scoringMs: 0 },
    };
  }
}

async function attempt<R extends Row>(row: R, key: string, options: RunOptions<R>, runSignal: AbortSignal): Promise<Played> {
  const { environment, client, sampling, maxTokens, timeoutMs } = options;
  using deadline = deadlineOf('the rollout to end', runSignal, timeoutMs);
  const { signal } = deadline;
  const startedAtMs = Date.now();
  try {
    const random = Random.fromSeed(options.seed).fork(key);
    await using lease = await openUntilAborted(client.lease(signal, { key, random: random.fork('policy') }), signal);
    return await playEpisode({
      environment,
      row,
      lease,
      capabilities: client.capabilities,
      sampling,
      maxTokens,
      ...(options.overlong && { overlong: options.overlong }),
      random,
      signal,
    });
  } catch (error) {
    if (runSignal.aborted) throw new CancelledError('The run was cancelled', { cause: error });
    const timedOut = signal.aborted;
    return {
      prompt: row.prompt,
      segments: [],
      tokens: null,
      stop: timedOut ? 'timeout_reached' : 'has_error',
      error: rolloutError(timedOut ? signal.reason : error, 'lease'),
      generations: [],
      policy: { version: 0, model: client.name },
      state: {},
      isTruncated: false,
      cutObservations: 0,
      isCut: false,
      timing: { startedAtMs, setupMs: Date.now() - startedAtMs, generationMs: 0, environmentMs: 0 },
    };
  }
}

/** The run's signal, aborted with a TimeoutError as well once `timeoutMs` have passed. Once disposed it holds nothing of the run's. */
function deadlineOf(what: string, runSignal: AbortSignal, timeoutMs: number | null): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const cancel = () => controller.abort(runSignal.reason);
  if (runSignal.aborted) cancel();
  else runSignal.addEventListener('abort', cancel, { once: true });
  const late = () => controller.abort(new TimeoutError(`Expected ${what} within ${timeoutMs! / 1000} s; raise --timeout if a server is slow`));
  const timer = timeoutMs === null ? undefined : setTimeout(late, Math.min(timeoutMs, LONGEST_TIMER_MS));
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      clearTimeout(timer);
      runSignal.removeEventListener('abort', cancel);
    },
  };
}
