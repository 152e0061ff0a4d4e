/**
 * Plays and scores many rollouts at once and yields each group as soon as it is scored. An episode holds its slot while it is played; scoring has
 * slots of its own, so a slow judge delays no episode.
 */
import type { AgentGateway } from '../agents/agent-gateway.ts';
import type { PolicyClient, PolicyLease, Sampling } from '../clients/policy-client.ts';
import { eitherSignal, openUntilAborted } from '../core/abort.ts';
import { agentOf, needsNoPolicy } from '../core/agent-env.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { Disposers } from '../core/disposers.ts';
import { CancelledError, ConfigError, thrownText } from '../core/errors.ts';
import type { Limiter } from '../core/limiter.ts';
import type { RoleModels, RolloutModels } from '../core/model.ts';
import { Random } from '../core/random.ts';
import { assertPlayable } from './assert-playable.ts';
import { assertRolesPlayed, playersOf } from './builtin-players.ts';
import { heldModels } from './held-models.ts';
import { type Deadline, deadlineOf, deadlinePassed, TIMEOUT_NAMES, type TimeoutNames } from './deadline.ts';
import { GroupInProgress } from './group-in-progress.ts';
import { Inbox } from './inbox.ts';
import { playAgent } from './play-agent.ts';
import { playEpisode } from './play.ts';
import { Recorder } from './recorder.ts';
import { type Played, type Rollout, type RolloutPhase, rolloutError, type RolloutUsage, type ScoredGroup } from './rollout.ts';
import { Scoring } from './scoring.ts';
import { sumUsage } from './sum-usage.ts';
import type { Overlong } from './transcript.ts';

/** The rollouts of one row to play. */
export interface RolloutGroup<R extends Row> {
  readonly row: R;
  /** Indices of the row's rollouts: 0 to rollouts per example - 1. A resumed run plays only the missing ones. */
  readonly indices: readonly number[];
}

export interface RunOptions<R extends Row> {
  readonly environment: Environment<R>;
  /** An environment that asks models of its own never calls it. */
  readonly client: PolicyClient;
  /** The models of the environment's roles. @default its own ones, for the roles whose default is `builtin` */
  readonly models?: RoleModels;
  readonly sampling: Sampling;
  /** What an agent asks for (temperature, `top_p`, further fields) gives way to `sampling`, as training needs. False: it is honoured. @default true */
  readonly overridesSampling?: boolean;
  /** Where agents find the policy over HTTP. @default nowhere: `policy.baseURL` throws */
  readonly gateway?: AgentGateway;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  /** Episodes in flight at once, from 1 up. */
  readonly maxConcurrent: number;
  /** Shared with other runs: an episode needs one of these slots too. @default no further limit */
  readonly slots?: Limiter;
  /** Rollouts scored at once, from 1 up. @default maxConcurrent */
  readonly maxScoring?: number;
  /** Deadline of one attempt at a rollout in milliseconds, without waits for a slot of a role; null sets none. */
  readonly timeoutMs: number | null;
  /**
   * Deadline of one attempt at the rewards of a rollout, in milliseconds; null sets none. Waits for a slot of a role and calls of roles by the `finish` hook
   * do not count. @default timeoutMs
   */
  readonly scoringTimeoutMs?: number | null;
  /** Names of the two timeouts in errors. @default timeoutMs, scoringTimeoutMs */
  readonly timeoutNames?: TimeoutNames;
  /** The time for which a cancelled run continues to score played rollouts, in milliseconds. @default 5000 */
  readonly scoringGraceMs?: number;
  /** The time that an episode may take to clean up, in milliseconds. @default 10000 */
  readonly cleanUpMs?: number;
  /** Number of times that an episode that failed retryably is restarted, on another replica if there is one. @default 1 */
  readonly maxReplays?: number;
  readonly seed: number;
  /** @default the environment's own, else 'stop' */
  readonly overlong?: Overlong;
  /** Scores every rollout alone, even if the rubric has group rewards. @default false */
  readonly independentScoring?: boolean;
  readonly signal: AbortSignal;
  /** Called whenever the number of episodes in flight changes. */
  readonly onActive?: (active: number) => void;
  /** Called with each rollout as soon as it has its score or its error, before its group is complete. An error that it throws ends the run. */
  readonly onRollout?: (rollout: Rollout<R>) => void;
}

/**
 * Yields scored groups in the order in which they end. Failures are rollouts with an error; only cancellation throws (CancelledError), after
 * the rollouts that were played to their end have been scored, if that takes only seconds, and yielded. Throws ConfigError before the first rollout if
 * the policy cannot play the environment, or if no model plays one of its roles.
 *
 * @example
 * for await (const { row, rollouts } of runRollouts(groups, options)) rewards.set(row.exampleId, rollouts.map((r) => r.reward));
 */
export async function* runRollouts<R extends Row>(groups: Iterable<RolloutGroup<R>>, options: RunOptions<R>): AsyncGenerator<ScoredGroup<R>, void> {
  const { maxConcurrent, maxScoring = maxConcurrent, onRollout } = options;
  assertCount('maxConcurrent', maxConcurrent);
  assertCount('maxScoring', maxScoring);
  assertPlayable(options.environment, options.client);
  assertRolesPlayed(options.environment, options.models);
  const stop = new AbortController();
  // Aborts scoring too. A user's cancellation does not: played rollouts are still scored.
  const abandon = new AbortController();
  using either = eitherSignal(options.signal, stop.signal);
  const { signal } = either;
  const finished = new Inbox<ScoredGroup<R>>();
  let failure: unknown;
  const fail = (error: unknown) => {
    failure ??= error;
    stop.abort(error);
    if (!options.signal.aborted) abandon.abort(error);
  };
  await using scoring = new Scoring<R>(options.environment, { ...options, maxScoring, stop: abandon.signal });
  const onScored = (rollout: Rollout<R>) => {
    try {
      onRollout?.(rollout);
    } catch (error) {
      fail(error);
    }
  };
  const open = new Set<GroupInProgress<R>>();
  const tasks = eachTask(groups, options, { scoring, open, onScored, onGroup: (group) => finished.add(group) });
  let active = 0;
  const work = async () => {
    try {
      for (const task of tasks) {
        // A policy that computes in this process would otherwise keep Ctrl-C, deadlines and the reader waiting until the run is over.
        await new Promise((done) => setImmediate(done));
        await scoring.room(signal);
        const play = () => {
          options.onActive?.(++active);
          return task(signal).finally(() => options.onActive?.(--active));
        };
        await (options.slots === undefined ? play() : options.slots.run(play, signal));
      }
    } catch (error) {
      fail(error);
    }
  };
  const played = Promise.all(Array.from({ length: maxConcurrent }, work));
  const ended = played.then(() => Promise.all([...open].map((group) => group.end()))).finally(() => finished.end());
  try {
    for (;;) {
      const batch = await finished.take();
      if (batch.length === 0) break;
      yield* batch;
    }
  } finally {
    const left = new CancelledError('The reader of the rollouts stopped');
    stop.abort(left);
    abandon.abort(left);
    await ended;
  }
  if (failure !== undefined) throw failure;
  if (scoring.dropped > 0) throw new CancelledError('The run was cancelled', { cause: options.signal.reason });
}

function assertCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) throw new ConfigError(`${name} must be an integer of at least 1, got ${value}`);
}

type Task = (signal: AbortSignal) => Promise<void>;

interface TaskParts<R extends Row> {
  readonly scoring: Scoring<R>;
  /** Groups that are begun and not yet yielded. */
  readonly open: Set<GroupInProgress<R>>;
  readonly onScored: (rollout: Rollout<R>) => void;
  readonly onGroup: (group: ScoredGroup<R>) => void;
}

function* eachTask<R extends Row>(groups: Iterable<RolloutGroup<R>>, options: RunOptions<R>, parts: TaskParts<R>): Generator<Task, void> {
  const { scoring, open, onScored, onGroup } = parts;
  const together = options.environment.rubric.hasGroupRewards && options.independentScoring !== true;
  for (const { row, indices } of groups) {
    const group: GroupInProgress<R> = new GroupInProgress(row, {
      size: indices.length,
      together,
      scoring,
      onScored,
      onEnd: (scored) => {
        open.delete(group);
        if (scored.rollouts.length > 0) onGroup(scored);
      },
    });
    for (const index of indices) {
      yield async (signal) => {
        if (signal.aborted) throw new CancelledError('The run was cancelled', { cause: signal.reason });
        open.add(group);
        const rolloutId = `${row.exampleId}/${index}`;
        const models = playersOf(options.environment.roles, options.models?.forRollout(rolloutId));
        group.add({ rollout: await playRollout({ row, index, rolloutId, models }, options, signal), models });
      };
    }
  }
}

interface Member<R extends Row> {
  readonly row: R;
  readonly index: number;
  readonly rolloutId: string;
  readonly models: RolloutModels;
}

/** Plays one rollout, and again if it failed retryably. The last attempt counts. */
async function playRollout<R extends Row>(member: Member<R>, options: RunOptions<R>, signal: AbortSignal): Promise<Rollout<R>> {
  const { row, index, rolloutId } = member;
  const maxReplays = options.maxReplays ?? 1;
  const repeated: RolloutUsage[] = [];
  for (let attempts = 1; ; attempts++) {
    const played = await attempt(member, options, signal);
    if (played.error?.retryable === true && played.error.isRetriedOut !== true && attempts <= maxReplays) {
      repeated.push(played.usage);
      continue;
    }
    return {
      ...played,
      rolloutId,
      groupId: String(row.exampleId),
      index,
      task: row.task ?? null,
      ...(row.role === undefined ? {} : { role: row.role }),
      row,
      reward: null,
      metrics: {},
      scoredWith: 0,
      attempts,
      ...(repeated.length === 0 ? {} : { repeatedUsage: sumUsage(repeated) }),
    };
  }
}

async function attempt<R extends Row>(
  { row: given, rolloutId: key, models: own }: Member<R>,
  options: RunOptions<R>,
  runSignal: AbortSignal,
): Promise<Played> {
  const { client, sampling, maxTokens, timeoutMs, overlong, cleanUpMs } = options;
  const agent = agentOf(options.environment, given);
  const { environment, row } = agent ?? { environment: options.environment, row: given };
  const limit: Deadline = { what: 'The rollout did not end', timeoutMs, option: (options.timeoutNames ?? TIMEOUT_NAMES).rollout };
  using deadline = deadlineOf(limit, runSignal);
  const { signal } = deadline;
  const record = new Recorder(row.prompt, environment.turnFormat, 'lease');
  let played: Played;
  try {
    const random = Random.fromSeed(options.seed).fork(key);
    const models = { asked: own.asked, models: heldModels(own.models, { hold: () => deadline.hold(), during: 'waits' }) };
    const common = { environment, row, random, models, signal };
    if (needsNoPolicy(environment)) played = await playAgent({ ...common, asked: null });
    else {
      await using leases = new Disposers();
      const take = async (like?: PolicyLease) => {
        const wanted = { key, random: random.fork('policy'), onWait: () => deadline.hold(), ...(like === undefined ? {} : { like }) };
        return leases.use(await openUntilAborted(client.lease(signal, wanted), signal));
      };
      const lease = await take();
      const policy = { lease, capabilities: client.capabilities, sampling, maxTokens };
      const { overridesSampling = true, gateway = null } = options;
      const another = { another: () => take(lease), random: random.fork('policy'), overridesSampling, gateway };
      played =
        agent !== null
          ? await playAgent({ ...common, asked: { ...policy, ...another } })
          : await playEpisode({ ...common, ...policy, ...(overlong && { overlong }), ...(cleanUpMs !== undefined && { cleanUpMs }) });
    }
  } catch (error) {
    if (runSignal.aborted) throw new CancelledError('The run was cancelled', { cause: error });
    record.fail(error, signal);
    played = record.finish({ version: 0, model: client.name }, own?.asked ?? []);
  }
  // The record knows in which phase the deadline passed.
  const { error } = played;
  const isLate = error !== null && signal.aborted && error.message === thrownText(signal.reason);
  if (!isLate) return played;
  const awaited = agent !== null ? 'the agent was at work' : AWAITED[error.phase];
  return { ...played, error: rolloutError(deadlinePassed(limit, awaited), error.phase) };
}

const AWAITED: Readonly<Record<RolloutPhase, string>> = {
  lease: 'the policy was not available yet',
  setup: 'the environment was starting',
  prompt: 'the prompt was being made into tokens',
  generation: 'the policy was writing',
  environment: 'the environment was answering a turn',
  scoring: 'the rewards were being computed',
};
