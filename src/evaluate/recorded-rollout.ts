import type { Fork } from '../agents/fork.ts';
import { forkOf } from '../rollouts/branch-columns.ts';
import { type RequestFacts, requestFacts } from '../rollouts/agent-requests.ts';
import { factsOf, reasonOf, usageOf } from '../rollouts/rollout-columns.ts';
import { type RolloutFacts, type RolloutUsage, UNPLAYED } from '../rollouts/rollout.ts';
import type { WireResult } from '../schemas/results.ts';

/** A rollout of `results.jsonl` as the summary reads it; texts stay on disk. */
export interface RecordedRollout extends RolloutFacts, RequestFacts {
  /** The reasons why metrics have no value, by name; absent if none failed. */
  readonly metricErrors?: Readonly<Record<string, string>>;
  /** The reason why the environment's clean-up failed; absent if it succeeded. */
  readonly cleanUpError?: string;
  /** Number of observations that were cut, of which only the head was kept. */
  readonly cutObservations: number;
  /** Turns for which the server does not say whether a stop string ended them; absent without any. */
  readonly guessedStops?: number;
  /** Turns in which the server went on after a stop string; absent without any. */
  readonly ignoredStops?: number;
  /** Tokens of the attempts before the last; absent if there are none. */
  readonly repeatedUsage?: RolloutUsage;
  /** Where and why its branches left others; absent if none did. */
  readonly forks?: readonly Fork[];
  /** The time at which it was scored, in milliseconds since the epoch. */
  readonly endedAtMs: number;
}

export function recordedRollout(result: WireResult): RecordedRollout {
  const { error, clean_up_error: cleanUpError, metric_errors: metricErrors, timing, branches = [] } = result;
  const forks = branches.map(({ fork }) => forkOf(fork)).filter((fork) => fork !== null);
  return {
    ...factsOf(result),
    metrics: recordedMetrics(result),
    error: error && { type: error.error, message: error.message, ...reasonOf(error) },
    ...(isScoredUnplayed(result) ? UNSCORED : {}),
    ...(metricErrors === undefined ? {} : { metricErrors }),
    ...(cleanUpError === undefined ? {} : { cleanUpError }),
    cutObservations: result.cut_observations,
    ...(result.guessed_stops === undefined ? {} : { guessedStops: result.guessed_stops }),
    ...(result.ignored_stops === undefined ? {} : { ignoredStops: result.ignored_stops }),
    ...(result.repeated_usage === undefined ? {} : { repeatedUsage: usageOf(result.repeated_usage) }),
    ...(forks.length === 0 ? {} : { forks }),
    ...requestFacts(result),
    endedAtMs: (timing.start_time + timing.total) * 1000,
  };
}

/** Files of earlier versions hold a reward for a rollout in which the policy had no room for a first token. */
function isScoredUnplayed({ error, stop_condition: stop, num_turns: turns }: WireResult): boolean {
  return error === null && stop === 'prompt_too_long' && turns === 0;
}

const UNSCORED = { reward: null, metrics: {}, error: { type: UNPLAYED, message: 'The prompt left the policy no room for a first token' } };

/** The metrics that were measured: a failed rollout has null columns on file. */
export function recordedMetrics({ metrics }: Pick<WireResult, 'metrics'>): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter((entry): entry is [string, number] => entry[1] !== null));
}
